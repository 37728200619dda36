//! `plimsoll schema`: JSON Schemas of the documents that programs read. What was typed, not what it means.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use plimsoll_report::schema;

const EXAMPLES: &str = "\
docs/reference/stability.md says what may change in these documents, and what may not.

Examples:
  plimsoll schema summary > summary.schema.json
  plimsoll schema doctor | jq .properties.limits

Exit codes: 0 printed, 2 bad usage";

/// `plimsoll schema`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SchemaFlags {
    /// Which document
    #[arg(value_name = "NAME", value_parser = names())]
    pub(crate) name: String,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(schema::ALL.map(|one| PossibleValue::new(one.name).help(one.of)))
}
