//! `--sut`, and one flag for each program that a laboratory can test: `--haproxy PATH`, `--nginx PATH`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use plimsoll_model::SutKind;

use super::complaint::listed;

/// The server that a laboratory tests, and the files of programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SutFlags {
    /// The value of `--sut`.
    pub(crate) sut: Option<SutKind>,
    /// The files that flags name, in the order of [`SutKind::ALL`].
    pub(crate) programs: Vec<(SutKind, PathBuf)>,
}

/// Returns kinds of server as texts list values of `--sut`: `haproxy or nginx`.
pub(crate) fn kinds(of: impl IntoIterator<Item = SutKind>) -> String {
    listed(of.into_iter().map(|kind| kind.name().to_owned()).collect())
}

impl FromArgMatches for SutFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let named = |kind: SutKind| Some((kind, matches.get_one::<PathBuf>(kind.name())?.clone()));
        let programs = SutKind::proxies().filter_map(named).collect();
        Ok(Self { sut: matches.get_one("sut").copied(), programs })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SutFlags {
    fn augment_args(command: Command) -> Command {
        let sut = Arg::new("sut")
            .long("sut")
            .value_name("SUT")
            .hide_possible_values(true)
            .value_parser(
                PossibleValuesParser::new(SutKind::ALL.map(SutKind::name))
                    .try_map(|name| name.parse::<SutKind>()),
            )
            .help(format!(
                "Server to test: {} [default: haproxy if installed, else embedded]",
                kinds(SutKind::ALL)
            ));
        let program = |kind: SutKind| {
            Arg::new(kind.name())
                .long(kind.name())
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help(format!("{} binary [default: the one on the PATH]", kind.title()))
        };
        SutKind::proxies().map(program).fold(command.arg(sut), Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
