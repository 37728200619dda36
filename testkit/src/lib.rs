//! A simulated world for tests: servers and load generators with known properties, from a seed.
//!
//! It turns a [`plimsoll_model::trial::TrialRequest`] into the measurement that a real run would
//! give, in milliseconds and without sockets or clocks. It judges nothing: truth is what the test
//! knows of the world it built.
#![forbid(unsafe_code)]

pub mod generator;
pub mod sut;
pub mod world;

pub use generator::Generator;
pub use sut::Overload;
pub use sut::Service;
pub use sut::Stalls;
pub use sut::Sut;
pub use world::World;
