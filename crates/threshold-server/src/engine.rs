//! The engine of a server, over whatever store and ledger it was told to use.

use threshold::{SharedLedger, SharedStore, SystemClock};
use threshold_http::ThresholdLayer;

/// Makes the decisions of all surfaces.
pub(crate) type Engine = threshold::engine::Engine<SharedStore, SystemClock, SharedLedger>;
/// Its limits around the gateway.
pub(crate) type Layer = ThresholdLayer<SharedStore, SystemClock, SharedLedger>;
