//! `--sut`, and one flag for each program that a laboratory can test: `--haproxy PATH`, `--nginx PATH`.

use std::path::{Path, PathBuf};

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
    programs: Vec<(SutKind, PathBuf)>,
}

impl SutFlags {
    /// Returns the kinds of server whose program's file is named, each with that file.
    pub(crate) fn programs(&self) -> impl Iterator<Item = (SutKind, &Path)> {
        self.programs.iter().map(|(kind, path)| (*kind, path.as_path()))
    }
}

impl FromArgMatches for SutFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.sut = matches.get_one("sut").copied();
        let named = |kind: SutKind| Some((kind, matches.get_one::<PathBuf>(kind.name())?.clone()));
        self.programs = SutKind::proxies().filter_map(named).collect();
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
                listed(SutKind::ALL.map(|kind| kind.name().to_owned()).to_vec())
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
