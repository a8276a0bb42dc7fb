//! Ten tests of an rdkafka consumer, each with a fault that a container's Kafka cannot be asked for.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use coterie_testing::*;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::message::Message;

const GROUP: &str = "billing";
const LIMIT: Duration = Duration::from_secs(10);

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn consumer(broker: &Broker, client_id: &str) -> BaseConsumer {
    let settings = BTreeMap::from([
        ("bootstrap.servers", broker.bootstrap_address()),
        ("group.id", GROUP),
        ("client.id", client_id),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
        ("heartbeat.interval.ms", "50"),
        ("fetch.wait.max.ms", "50"),
        ("retry.backoff.ms", "10"),
        ("reconnect.backoff.ms", "10"),
        ("socket.timeout.ms", "2000"),
        ("log_level", "0"),
    ]);
    let mut config = ClientConfig::new();
    settings.into_iter().for_each(|(name, value)| {
        config.set(name, value);
    });
    let consumer: BaseConsumer = config.create().expect("the settings are right");
    consumer.subscribe(&["orders"]).expect("it subscribes");
    consumer
}

/// Polls until so many records have come, and returns their values.
fn read(consumer: &BaseConsumer, count: usize) -> Vec<String> {
    let until = Instant::now() + LIMIT;
    let mut values = Vec::new();
    while values.len() < count {
        assert!(
            Instant::now() < until,
            "{} of {count} records came",
            values.len()
        );
        if let Some(Ok(record)) = consumer.poll(Duration::from_millis(50)) {
            values.push(String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned());
        }
    }
    values
}

fn commit(consumer: &BaseConsumer) -> KafkaResult<()> {
    consumer.commit_consumer_state(CommitMode::Sync)
}

fn is_committed(broker: &Broker) -> Result<(), Error> {
    let offset = Offset {
        topic: "orders".into(),
        partition: 0,
        offset: 2,
    };
    broker.until_committed(GROUP, &[offset], &Default::default())
}

fn produce(broker: &Broker, values: &[&str], partition: i64) -> Result<(), Error> {
    let values: Vec<Bytes> = values.iter().map(Bytes::from).collect();
    let options = ProduceOptions {
        partition: Some(partition),
        ..Default::default()
    };
    broker.produce("orders", &values, &options)
}

fn records_arrive(broker: &Broker) -> Outcome {
    assert_eq!(read(&consumer(broker, "worker"), 2), ["a", "b"]);
    Ok(())
}

fn a_commit_is_retried_while_the_coordinator_loads(broker: &Broker) -> Outcome {
    let consumer = consumer(broker, "worker");
    read(&consumer, 2);
    let twice = FailOptions {
        times: Some(2),
        ..Default::default()
    };
    broker.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", &twice)?;
    while commit(&consumer).is_err() {}
    Ok(is_committed(broker)?)
}

fn a_held_sync_group_delays_the_first_poll(broker: &Broker) -> Outcome {
    let held = broker.hold("SyncGroup", &Default::default())?;
    let consumer = consumer(broker, "worker");
    thread::scope(|scope| -> Outcome {
        let reading = scope.spawn(|| read(&consumer, 2));
        broker.until_held(&held, &Default::default())?;
        let soon = UntilStableOptions {
            timeout_s: Some(0.05),
            ..Default::default()
        };
        assert!(broker.until_stable(GROUP, &soon).unwrap_err().is_timeout());
        broker.release(&held)?;
        assert_eq!(reading.join().expect("it reads").len(), 2);
        Ok(())
    })
}

fn a_member_whose_session_expired_joins_again(broker: &Broker) -> Outcome {
    let consumer = consumer(broker, "worker");
    read(&consumer, 2);
    broker.expire(GROUP, "worker")?;
    produce(broker, &["c"], 1)?;
    while read(&consumer, 1) != ["c"] {}
    Ok(())
}

fn another_coordinator(broker: &Broker) -> Outcome {
    let consumer = consumer(broker, "worker");
    read(&consumer, 2);
    broker.move_coordinator(GROUP)?;
    while commit(&consumer).is_err() {}
    Ok(is_committed(broker)?)
}

fn a_lost_response_of_a_commit(broker: &Broker) -> Outcome {
    let consumer = consumer(broker, "worker");
    read(&consumer, 2);
    broker.cut("OffsetCommit", &Default::default())?;
    while commit(&consumer).is_err() {}
    Ok(is_committed(broker)?)
}

fn a_slow_fetch(broker: &Broker) -> Outcome {
    broker.delay("Fetch", 100, &Default::default())?;
    read(&consumer(broker, "worker"), 2);
    Ok(())
}

fn connections_drop(broker: &Broker) -> Outcome {
    let consumer = consumer(broker, "worker");
    read(&consumer, 2);
    assert!(broker.drop_connections(&Default::default())? > 0);
    while commit(&consumer).is_err() {}
    Ok(is_committed(broker)?)
}

fn two_members_share_the_partitions(broker: &Broker) -> Outcome {
    let members = [consumer(broker, "one"), consumer(broker, "other")];
    let two = UntilStableOptions {
        members: Some(2),
        ..Default::default()
    };
    thread::scope(|scope| -> Outcome {
        let stable = scope.spawn(|| broker.until_stable(GROUP, &two));
        while !stable.is_finished() {
            for member in &members {
                member.poll(Duration::from_millis(10));
            }
        }
        stable.join().expect("it waits")?;
        Ok(())
    })
}

fn lag(broker: &Broker) -> Outcome {
    let consumer = consumer(broker, "worker");
    read(&consumer, 2);
    commit(&consumer)?;
    produce(broker, &["c"], 0)?;
    let one = UntilLagOptions {
        at_least: Some(1),
        ..Default::default()
    };
    assert_eq!(broker.until_lag(GROUP, &one)?, 1);
    Ok(())
}

#[test]
fn of_one_broker_that_is_emptied_between_them() -> Outcome {
    type Test = fn(&Broker) -> Outcome;
    let tests: [(&str, Test); 10] = [
        ("records arrive", records_arrive),
        (
            "a commit is retried while the coordinator loads",
            a_commit_is_retried_while_the_coordinator_loads,
        ),
        (
            "a held SyncGroup delays the first poll",
            a_held_sync_group_delays_the_first_poll,
        ),
        (
            "a member whose session expired joins again",
            a_member_whose_session_expired_joins_again,
        ),
        ("another coordinator", another_coordinator),
        ("a lost response of a commit", a_lost_response_of_a_commit),
        ("a slow fetch", a_slow_fetch),
        ("connections drop", connections_drop),
        (
            "two members share the partitions",
            two_members_share_the_partitions,
        ),
        ("lag", lag),
    ];
    let broker = Broker::start(&[])?;
    let partitions = CreateTopicOptions {
        partitions: Some(2),
        ..Default::default()
    };
    for (name, test) in tests {
        broker.reset()?;
        broker.create_topic("orders", &partitions)?;
        produce(&broker, &["a", "b"], 0)?;
        test(&broker).map_err(|error| format!("{name}: {error}; {:?}", broker.story()))?;
        println!("passed: {name}");
    }
    Ok(())
}
