//! `--isolate`: whether the hosts of laboratories are network namespaces.

use plimsoll_lab::ClientHost;

use crate::exit::Stop;
use crate::flags::LabExperiment;
use crate::flags::values::IsolateFlag;

/// What became of `--isolate`.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    /// The host of the clients; `None` where all is on loopback.
    pub(super) clients: Option<ClientHost>,
    /// Why it is on loopback, where nobody asked for that.
    pub(super) note: Option<String>,
}

impl Isolation {
    /// That of these laboratories, which have the same clients.
    pub(super) fn of(labs: &[&LabExperiment]) -> Result<Self, Stop> {
        let wishes = |wish| labs.iter().any(|lab| lab.hosts().isolate == wish);
        let (must, never) = (wishes(IsolateFlag::Netns), wishes(IsolateFlag::None));
        if must && never {
            return Err(Stop::usage(
                "A and B have the same clients, and --isolate differs",
                "give both the same --isolate",
            ));
        }
        if never || labs.is_empty() {
            return Ok(Self::default());
        }
        if labs.iter().any(|lab| !lab.sources().is_empty()) {
            const WHY: &str = "--source names addresses of this host";
            return if must {
                Err(Stop::usage(format_args!("--isolate netns: {WHY}"), "use --isolate none"))
            } else {
                Ok(Self::shared(WHY))
            };
        }
        match ClientHost::new() {
            Ok(clients) => Ok(Self { clients: Some(clients), note: None }),
            Err(error) if must => Err(error.into()),
            Err(error) => Ok(Self::shared(&error.to_string())),
        }
    }

    /// All on loopback, for this reason.
    fn shared(why: &str) -> Self {
        Self { clients: None, note: Some(format!("no separate hosts: {why}")) }
    }

    /// `netns` or `none`, for the settings of a run.
    pub(super) const fn name(&self) -> &'static str {
        if self.clients.is_some() { "netns" } else { "none" }
    }
}
