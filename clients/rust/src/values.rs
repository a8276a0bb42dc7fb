use std::fmt;

use base64::prelude::{Engine, BASE64_STANDARD};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// A committed offset of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    pub topic: String,
    pub partition: i64,
    pub offset: i64,
}

/// The number of records behind a group's committed offset.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Lag {
    pub topic: String,
    pub partition: i64,
    pub lag: i64,
}

/// What becomes of the next requests of an API, as it was when the broker returned it.
#[derive(Clone, Debug, Deserialize)]
pub struct Rule {
    pub rule: i64,
    pub api: String,
    pub times_left: i64,
    pub held: i64,
}

/// The value or key of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl<T: AsRef<[u8]>> From<T> for Bytes {
    fn from(value: T) -> Self {
        Bytes(value.as_ref().to_vec())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &BASE64_STANDARD.encode(&self.0))?;
        map.end()
    }
}

/// A refusal of the control API, or a broker that cannot be reached; then `status` is 0.
#[derive(Clone, Debug)]
pub struct Error {
    pub status: u16,
    pub message: String,
    /// Kafka's, where the broker refused.
    pub code: Option<String>,
}

impl Error {
    pub(crate) fn unreachable(message: String) -> Self {
        Error {
            status: 0,
            message,
            code: None,
        }
    }

    /// What was waited for did not come in time.
    pub fn is_timeout(&self) -> bool {
        self.status == 504
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
