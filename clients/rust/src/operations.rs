// Generated from coterie's table of operations by `python -m coterie_conformance.languages`; do not edit.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use crate::broker::{add, Broker};
use crate::values::{Bytes, Error, Lag, Offset, Rule};

/// What may be left out of [`Broker::client_settings`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientSettingsOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
}

/// What may be left out of [`Broker::coordinator_of`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct CoordinatorOfOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// What may be left out of [`Broker::create_topic`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct CreateTopicOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configs: Option<BTreeMap<String, String>>,
}

/// What may be left out of [`Broker::cut`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct CutOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

/// What may be left out of [`Broker::delay`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct DelayOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

/// What may be left out of [`Broker::drop_connections`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct DropConnectionsOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

/// What may be left out of [`Broker::fail`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct FailOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

/// What may be left out of [`Broker::hold`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct HoldOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<i64>,
}

/// What may be left out of [`Broker::in_sync`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct InSyncOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i64>,
}

/// What may be left out of [`Broker::journal`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct JournalOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// What may be left out of [`Broker::leader_of`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct LeaderOfOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// What may be left out of [`Broker::lose_response`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoseResponseOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

/// What may be left out of [`Broker::produce`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProduceOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i64>,
}

/// What may be left out of [`Broker::transaction_coordinator_of`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct TransactionCoordinatorOfOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// What may be left out of [`Broker::until_committed`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct UntilCommittedOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// What may be left out of [`Broker::until_held`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct UntilHeldOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// What may be left out of [`Broker::until_lag`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct UntilLagOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// What may be left out of [`Broker::until_requested`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct UntilRequestedOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// What may be left out of [`Broker::until_stable`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct UntilStableOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

impl Broker {
    /// The bootstrap.servers of clients: HOST:PORT, of a cluster those of all brokers with commas.
    pub fn bootstrap_servers(&self) -> Result<String, Error> {
        let given = json!({});
        self.call("bootstrap_servers", given)
    }

    /// What a client needs to connect, by Kafka's names: the address, and with sasl or tls the protocol, the file of the
    /// authority and the login of that user, or of the first. Raises LookupError for an unknown user.
    pub fn client_settings(
        &self,
        options: &ClientSettingsOptions,
    ) -> Result<BTreeMap<String, String>, Error> {
        let mut given = json!({});
        add(&mut given, options);
        self.call("client_settings", given)
    }

    /// The group's committed offsets.
    pub fn committed(&self, group: &str) -> Result<Vec<Offset>, Error> {
        let given = json!({"group": group});
        self.call("committed", given)
    }

    /// The id of the broker that coordinates the group, once there is one.
    pub fn coordinator_of(
        &self,
        group: &str,
        options: &CoordinatorOfOptions,
    ) -> Result<i64, Error> {
        let mut given = json!({"group": group});
        add(&mut given, options);
        self.call("coordinator_of", given)
    }

    /// Creates a topic, and returns once every broker knows it. Raises KafkaError.
    pub fn create_topic(&self, name: &str, options: &CreateTopicOptions) -> Result<(), Error> {
        let mut given = json!({"name": name});
        add(&mut given, options);
        self.call("create_topic", given)
    }

    /// The next so many requests of that API are not carried out, and their connections are closed.
    pub fn cut(&self, api: &str, options: &CutOptions) -> Result<Rule, Error> {
        let mut given = json!({"api": api});
        add(&mut given, options);
        self.call("cut", given)
    }

    /// The next so many requests of that API are carried out so many milliseconds later.
    pub fn delay(&self, api: &str, ms: i64, options: &DelayOptions) -> Result<Rule, Error> {
        let mut given = json!({"api": api, "ms": ms});
        add(&mut given, options);
        self.call("delay", given)
    }

    /// Cuts every connection, or those of one client; returns how many.
    pub fn drop_connections(&self, options: &DropConnectionsOptions) -> Result<i64, Error> {
        let mut given = json!({});
        add(&mut given, options);
        self.call("drop_connections", given)
    }

    /// Ends a member's session now; member is its member id, or its client id. So ends a member id that was reserved and
    /// not used yet (KIP-394). Raises LookupError.
    pub fn expire(&self, group: &str, member: &str) -> Result<(), Error> {
        let given = json!({"group": group, "member": member});
        self.call("expire", given)
    }

    /// Where the group stands and whom it waits for, in a sentence.
    pub fn explain(&self, group: &str) -> Result<String, Error> {
        let given = json!({"group": group});
        self.call("explain", given)
    }

    /// The next so many requests of that API receive that code, such as ErrorCode.NOT_COORDINATOR or its name, and not
    /// carried out.
    pub fn fail(&self, api: &str, code: &str, options: &FailOptions) -> Result<Rule, Error> {
        let mut given = json!({"api": api, "code": code});
        add(&mut given, options);
        self.call("fail", given)
    }

    /// Ends every partition and shrink_isr, also of a broker that is down.
    pub fn heal(&self) -> Result<(), Error> {
        let given = json!({});
        self.call("heal", given)
    }

    /// As hold, where no with-block fits: release ends it.
    pub fn hold(&self, api: &str, options: &HoldOptions) -> Result<Rule, Error> {
        let mut given = json!({"api": api});
        add(&mut given, options);
        self.call("hold", given)
    }

    /// The ids of the replicas in sync, as the partition's leader has them.
    pub fn in_sync(&self, topic: &str, options: &InSyncOptions) -> Result<Vec<i64>, Error> {
        let mut given = json!({"topic": topic});
        add(&mut given, options);
        self.call("in_sync", given)
    }

    /// The journal since the start or the last reset, of one group or of all: objects as coterie groups history --json has
    /// them, with the causes of each rebalance.
    pub fn journal(&self, options: &JournalOptions) -> Result<Vec<serde_json::Value>, Error> {
        let mut given = json!({});
        add(&mut given, options);
        self.call("journal", given)
    }

    /// Moves the broker's clock on; sessions and timeouts that are over then, end now.
    pub fn jump(&self, ms: i64) -> Result<(), Error> {
        let given = json!({"ms": ms});
        self.call("jump", given)
    }

    /// As SIGKILL. Its memory stays for restart, as a disk would.
    pub fn kill(&self, broker_id: i64) -> Result<(), Error> {
        let given = json!({"broker_id": broker_id});
        self.call("kill", given)
    }

    /// The records behind the group's committed offsets, by partition; never negative. Partitions without a leader are left
    /// out.
    pub fn lag(&self, group: &str) -> Result<Vec<Lag>, Error> {
        let given = json!({"group": group});
        self.call("lag", given)
    }

    /// The id of the broker that leads the partition, once there is one.
    pub fn leader_of(&self, topic: &str, options: &LeaderOfOptions) -> Result<i64, Error> {
        let mut given = json!({"topic": topic});
        add(&mut given, options);
        self.call("leader_of", given)
    }

    /// The next so many requests of that API are carried out, and their responses never sent.
    pub fn lose_response(&self, api: &str, options: &LoseResponseOptions) -> Result<Rule, Error> {
        let mut given = json!({"api": api});
        add(&mut given, options);
        self.call("lose_response", given)
    }

    /// Member id -> client id of those in the group now.
    pub fn members(&self, group: &str) -> Result<BTreeMap<String, String>, Error> {
        let given = json!({"group": group});
        self.call("members", given)
    }

    /// As if another broker had taken the group over: waiting requests receive NOT_COORDINATOR, and clients look it up
    /// again; members and offsets are loaded from the log. In a cluster another broker does.
    pub fn move_coordinator(&self, group: &str) -> Result<(), Error> {
        let given = json!({"group": group});
        self.call("move_coordinator", given)
    }

    /// Has the controller make that broker, a replica in sync, the preferred leader of the partition, and elect it.
    pub fn move_leader(&self, topic: &str, partition: i64, broker_id: i64) -> Result<(), Error> {
        let given = json!({"topic": topic, "partition": partition, "broker_id": broker_id});
        self.call("move_leader", given)
    }

    /// Cuts a broker off from the other brokers and from ZooKeeper, until heal; clients still reach it.
    pub fn partition(&self, broker_id: i64) -> Result<(), Error> {
        let given = json!({"broker_id": broker_id});
        self.call("partition", given)
    }

    /// As SIGSTOP, as far as others see it: requests wait and nothing is sent, until resume.
    pub fn pause(&self, broker_id: i64) -> Result<(), Error> {
        let given = json!({"broker_id": broker_id});
        self.call("pause", given)
    }

    /// Appends these records to one partition: that given, else the key's, else 0; once, also where the partition's leader
    /// moves meanwhile. Raises KafkaError, TypeError for what is not bytes, ValueError without a value.
    pub fn produce(
        &self,
        topic: &str,
        values: &[Bytes],
        options: &ProduceOptions,
    ) -> Result<(), Error> {
        let mut given = json!({"topic": topic, "values": values});
        add(&mut given, options);
        self.call("produce", given)
    }

    /// Ends a rule of any kind, also one that has ended; the requests that it holds go on.
    pub fn release(&self, rule: &Rule) -> Result<(), Error> {
        let given = json!({"rule": rule.rule});
        self.call("release", given)
    }

    /// How many requests of that API came so far.
    pub fn requested(&self, api: &str) -> Result<i64, Error> {
        let given = json!({"api": api});
        self.call("requested", given)
    }

    /// Empty as after start, on the same addresses: topics, groups, transactions, changed settings, faults and the journal
    /// are gone, connections are closed, and every broker of a cluster runs. A broker alone takes 1 ms, three take 30.
    pub fn reset(&self) -> Result<(), Error> {
        let given = json!({});
        self.call("reset", given)
    }

    /// Starts a broker again, on its port, after stop or kill.
    pub fn restart(&self, broker_id: i64) -> Result<(), Error> {
        let given = json!({"broker_id": broker_id});
        self.call("restart", given)
    }

    /// Ends what pause began.
    pub fn resume(&self, broker_id: i64) -> Result<(), Error> {
        let given = json!({"broker_id": broker_id});
        self.call("resume", given)
    }

    /// Takes the other replicas out of the ISR and cuts them off from the leader, which is among to, until heal.
    pub fn shrink_isr(&self, topic: &str, partition: i64, to: &[i64]) -> Result<(), Error> {
        let given = json!({"topic": topic, "partition": partition, "to": to});
        self.call("shrink_isr", given)
    }

    /// Closes every connection and ends the broker's thread. With a broker_id: a controlled shutdown of that broker of a
    /// cluster, whose partitions others lead first.
    pub fn stop(&self, broker_id: i64) -> Result<(), Error> {
        let given = json!({"broker_id": broker_id});
        self.call("stop", given)
    }

    /// The journal of all groups so far, a line each.
    pub fn story(&self) -> Result<Vec<String>, Error> {
        let given = json!({});
        self.call("story", given)
    }

    /// The id of the broker that coordinates the transactional id, once there is one.
    pub fn transaction_coordinator_of(
        &self,
        transactional_id: &str,
        options: &TransactionCoordinatorOfOptions,
    ) -> Result<i64, Error> {
        let mut given = json!({"transactional_id": transactional_id});
        add(&mut given, options);
        self.call("transaction_coordinator_of", given)
    }

    /// Waits until the group has committed at least these offsets.
    pub fn until_committed(
        &self,
        group: &str,
        offsets: &[Offset],
        options: &UntilCommittedOptions,
    ) -> Result<(), Error> {
        let mut given = json!({"group": group, "offsets": offsets});
        add(&mut given, options);
        self.call("until_committed", given)
    }

    /// Waits until so many requests wait at the door.
    pub fn until_held(&self, rule: &Rule, options: &UntilHeldOptions) -> Result<(), Error> {
        let mut given = json!({"rule": rule.rule});
        add(&mut given, options);
        self.call("until_held", given)
    }

    /// Waits until the group's lag, the sum over its committed partitions, is in these bounds; returns it. A group that has
    /// committed nothing has no lag yet.
    pub fn until_lag(&self, group: &str, options: &UntilLagOptions) -> Result<i64, Error> {
        let mut given = json!({"group": group});
        add(&mut given, options);
        self.call("until_lag", given)
    }

    /// Waits until so many requests of that API have come in all.
    pub fn until_requested(
        &self,
        api: &str,
        count: i64,
        options: &UntilRequestedOptions,
    ) -> Result<(), Error> {
        let mut given = json!({"api": api, "count": count});
        add(&mut given, options);
        self.call("until_requested", given)
    }

    /// Waits until the group is Stable (with so many members); returns its generation. A consumer group (KIP-848) is once
    /// each member has its part of the target assignment and nothing else; its group epoch is the generation. Raises
    /// TimeoutError that says what the group is waiting for.
    pub fn until_stable(&self, group: &str, options: &UntilStableOptions) -> Result<i64, Error> {
        let mut given = json!({"group": group});
        add(&mut given, options);
        self.call("until_stable", given)
    }
}
