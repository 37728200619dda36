//! A run in Kubernetes, through the user's kubectl: its configuration, contexts and logins are theirs.

mod kubectl;
mod manifests;
mod order;
mod pods;
mod results;
mod run;
mod yaml;

pub use kubectl::Cluster;
pub use manifests::{AGENTS_MAX, KubernetesRun, Manifests};
pub use order::{ORDER_BYTES_MAX, Order, OrderFile, OrderTooLarge, is_below};
pub use results::{FETCHED, Results, STDOUT, write_results};
pub use run::{ENDED, Hands, RunError, run};
