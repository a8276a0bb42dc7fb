use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::values::Error;

/// A broker in memory, which a test controls; the process that [`Broker::start`] made ends when this is dropped.
pub struct Broker {
    url: String,
    token: Option<String>,
    address: String,
    agent: ureq::Agent,
    process: Option<Child>,
}

#[derive(Deserialize)]
struct Refusal {
    error: Option<String>,
    code: Option<String>,
}

impl Broker {
    /// Runs `coterie broker`; the environment variable COTERIE names another program than coterie on the PATH. The options are
    /// further ones of the command, such as `--brokers 3` or `--set num.partitions=6`.
    pub fn start(options: &[&str]) -> Result<Self, Error> {
        let program = env::var("COTERIE").unwrap_or_else(|_| "coterie".to_string());
        let mut words = program.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("coterie"));
        command.args(words);
        command.args(["broker", "--memory", "--control", "127.0.0.1:0"]);
        if !options.contains(&"--brokers") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut process = command
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                let hint = "pip install 'coterie[http]', or name the program in COTERIE";
                Error::unreachable(format!("coterie does not start: {error}; {hint}"))
            })?;
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let mut broker = Broker::at(String::new(), None, Some(process));
        let mut after = |prefix: &str| match lines.next() {
            Some(Ok(line)) if line.starts_with(prefix) => Ok(line[prefix.len()..].to_string()),
            other => Err(Error::unreachable(format!(
                "coterie broker printed {other:?}, not {prefix:?}"
            ))),
        };
        broker.url = after("control API on ")?;
        broker.address = after("listening on ")?;
        Ok(broker)
    }

    /// Controls a broker that runs elsewhere, empty from now on.
    pub fn connect(url: &str, token: Option<&str>) -> Result<Self, Error> {
        let mut broker = Broker::at(url.to_string(), token.map(str::to_string), None);
        broker.reset()?;
        broker.address = broker.bootstrap_servers()?;
        Ok(broker)
    }

    fn at(url: String, token: Option<String>, process: Option<Child>) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        Broker {
            url,
            token,
            address: String::new(),
            agent: config.build().new_agent(),
            process,
        }
    }

    /// The bootstrap.servers of clients.
    pub fn bootstrap_address(&self) -> &str {
        &self.address
    }

    pub(crate) fn call<T: DeserializeOwned>(
        &self,
        operation: &str,
        given: Value,
    ) -> Result<T, Error> {
        let failed = |error: ureq::Error| Error::unreachable(format!("{operation}: {error}"));
        let mut request = self.agent.post(format!("{}/v1/{operation}", self.url));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = request.send_json(given).map_err(failed)?;
        let status = response.status().as_u16();
        if status == 200 {
            let mut body: Value = response.body_mut().read_json().map_err(failed)?;
            return serde_json::from_value(body["result"].take())
                .map_err(|error| Error::unreachable(format!("{operation}: {error}")));
        }
        let refusal: Option<Refusal> = response.body_mut().read_json().ok();
        let (message, code) = refusal.map_or((None, None), |one| (one.error, one.code));
        Err(Error {
            status,
            message: message.unwrap_or_else(|| format!("{operation}: HTTP {status}")),
            code,
        })
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill(); // what it holds is in memory
            let _ = process.wait();
        }
    }
}

/// Adds the options that are given.
pub(crate) fn add(given: &mut Value, options: &impl Serialize) {
    let options = serde_json::to_value(options).expect("options are plain values");
    if let (Value::Object(all), Value::Object(more)) = (given, options) {
        all.extend(more);
    }
}
