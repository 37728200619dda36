//! A simulated world for tests: servers and load generators with known properties, from a seed.
//!
//! It turns a [`plimsoll_model::trial::TrialRequest`] into the measurement that a real run would
//! give, in microseconds to milliseconds and without sockets or clocks. It judges nothing: truth is
//! what the test knows of the world it built.
//!
//! Two worlds share [`Sut`] and [`Generator`]: [`World`] follows every operation and knows random
//! arrivals and service times; [`Fluid`] follows the queues as curves, which makes whole searches
//! by the thousand cheap. [`Holding`] is a server whose memory ends, for the connections axis, and [`StormServer`] one
//! that clients come back to after a cut.
#![forbid(unsafe_code)]

pub mod anomalies;
pub mod fluid;
pub mod generator;
pub mod holding;
pub mod recorded;
pub mod schema;
pub mod storms;
pub mod sut;
pub mod world;

pub use anomalies::{
    Anomalies, Bimodal, Course, HiddenTimer, HostSpeed, Jitter, Leak, Metastable, Pauses, Rival,
    WarmUp,
};
pub use fluid::Fluid;
pub use generator::Generator;
pub use holding::Holding;
pub use storms::{Storm, StormServer};
pub use sut::{Overload, Service, Stalls, Sut};
pub use world::World;
