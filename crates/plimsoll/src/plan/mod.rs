//! What the flags mean: checked conversion into plans that agents can carry out.
//!
//! Everything that can be wrong before a run is found here, so that nothing has been started when
//! it is. Files, standard input and names come in through [`Inputs`].

pub(crate) mod climb;
pub(crate) mod compare;
pub(crate) mod find;
mod handshakes;
pub(crate) mod hold;
pub(crate) mod inputs;
pub(crate) mod lab;
pub(crate) mod load;
mod outputs;
mod pacing;
pub(crate) mod rfc9411;
pub(crate) mod serve;
mod sources;
mod targets;
#[cfg(test)]
pub(crate) mod tests;
mod tls;
mod words;

pub(crate) use inputs::Inputs;
