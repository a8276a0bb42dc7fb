//! A Kafka broker for tests that obeys: hold a SyncGroup, expire a member, move a coordinator, empty it.
//!
//! ```no_run
//! # fn main() -> Result<(), coterie_testing::Error> {
//! let broker = coterie_testing::Broker::start(&[])?;
//! broker.create_topic("orders", &Default::default())?;
//! // ... any Kafka client connects to broker.bootstrap_address() ...
//! # Ok(())
//! # }
//! ```

mod broker;
mod operations;
mod values;

pub use broker::Broker;
pub use operations::*;
pub use values::{Bytes, Error, Lag, Offset, Rule};
