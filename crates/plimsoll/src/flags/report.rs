//! The flags of `plimsoll report`, as typed: a run to draw again, and files to write in other formats.
//!
//! [`ReportFlags`] is parsed by clap: the runs, the merge, the comparison with a baseline, and the group
//! [`ReportFiles`] with one flag per output file. [`ReportFiles::wanted`] turns that group into a list of
//! [`WantedFile`]s, each with its flag, its place and its format; `commands::report` writes them. A new format needs
//! a flag and a row there. Start with [`ReportFiles::wanted`].

use std::path::PathBuf;

use clap::Args;
use plimsoll_model::gate::Gate;
use plimsoll_model::units::ParseError;
use plimsoll_report::exports::{Export, RowFormat, RowLatency, SPANS, Span};

use super::values::{OutputFile, output_file, refuse};

const EXAMPLES: &str = "\
Examples:
  plimsoll report my-run
  plimsoll report my-run --json -
  plimsoll report my-run --html my-run.html
  plimsoll report my-run --baseline main-run --fail-if 'safe<-5%'
  plimsoll report --merge client1-run client2-run --out merged-run
  plimsoll report my-run --markdown \"$GITHUB_STEP_SUMMARY\"

Exit codes: 0 drawn, 1 a file could not be written, 2 bad usage or runs that cannot be compared, 97 a search of
the pair claims no interval, 98 one of the pair is invalid, 99 a change that --fail-if excludes was shown";

/// `plimsoll report`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportFlags {
    /// Archive directory of a run, or of `plimsoll watch --out`
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// Join runs of one load that several machines made at the same time into the archive --out
    #[arg(long, requires = "out", help_heading = "Merging")]
    pub(crate) merge: bool,

    /// Directory of the merged run
    #[arg(long, value_name = "DIR", requires = "merge", help_heading = "Merging")]
    pub(crate) out: Option<PathBuf>,

    /// Show the whole report: every trial, check, setting and timer; else what fits on one screen
    #[arg(short = 'v', long)]
    pub(crate) details: bool,

    #[command(flatten)]
    pub(crate) files: ReportFiles,

    /// Archive directory of the run to compare with
    #[arg(long, value_name = "RUN", requires = "fail_if", help_heading = "CI")]
    pub(crate) baseline: Option<PathBuf>,

    /// Changes from the baseline that end with exit code 99, such as safe<-5% or p99>10%; repeatable
    ///
    /// The whole interval of the difference must show the change. Also errors>0.1pp.
    #[arg(long, value_name = "CHANGE,...", value_delimiter = ',', requires = "baseline")]
    #[arg(help_heading = "CI")]
    pub(crate) fail_if: Vec<Gate>,
}

/// Files written beside the report in the terminal; each is a path, or - for standard output.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct ReportFiles {
    /// Write the result as one JSON object (plimsoll.summary/1)
    #[arg(long, value_name = "FILE|-", value_parser = output_file)]
    pub(crate) json: Option<OutputFile>,

    /// Write a page with charts, in one HTML file that fetches nothing; overlays several runs
    #[arg(long, value_name = "FILE|-", value_parser = output_file)]
    pub(crate) html: Option<OutputFile>,

    /// Write comma-separated values, a line for each second, of load and hosts
    #[arg(long, value_name = "FILE|-", value_parser = output_file, help_heading = "Exports")]
    pub(crate) csv: Option<OutputFile>,

    /// Write the same as one JSON object for each second
    #[arg(long, value_name = "FILE|-", value_parser = output_file, help_heading = "Exports")]
    pub(crate) ndjson: Option<OutputFile>,

    /// Write the percentile distribution of a span, as HdrHistogram prints it
    #[arg(long, value_name = "FILE|-", value_parser = output_file, help_heading = "Exports")]
    pub(crate) hgrm: Option<OutputFile>,

    /// The span of --hgrm: corrected, uncorrected, wire, ttfb, connect, tls or send_lag
    #[arg(long, value_name = "SPAN", default_value = "corrected", value_parser = span)]
    #[arg(help_heading = "Exports")]
    pub(crate) span: Span,

    /// Write the histograms of every second as an interval log of HdrHistogram
    #[arg(long, value_name = "FILE|-", value_parser = output_file, help_heading = "Exports")]
    pub(crate) hlog: Option<OutputFile>,

    /// Write the single operations that `load --rows` recorded, as vegeta's CSV
    #[arg(long, value_name = "FILE|-", value_parser = output_file, help_heading = "Exports")]
    pub(crate) vegeta_csv: Option<OutputFile>,

    /// Write them as vegeta's JSON
    #[arg(long, value_name = "FILE|-", value_parser = output_file, help_heading = "Exports")]
    pub(crate) vegeta_json: Option<OutputFile>,

    /// Start of their latencies: corrected (the intended start) or uncorrected (the actual send)
    #[arg(long, value_name = "LATENCY", default_value = "corrected", value_parser = row_latency)]
    #[arg(help_heading = "Exports")]
    pub(crate) rows_latency: RowLatency,

    /// Write goals and checks as JUnit XML
    #[arg(long, value_name = "FILE|-", value_parser = output_file, help_heading = "CI")]
    pub(crate) junit: Option<OutputFile>,

    /// Append a summary in Markdown, as for GitHub's $GITHUB_STEP_SUMMARY
    #[arg(long, value_name = "FILE|-", value_parser = output_file, help_heading = "CI")]
    pub(crate) markdown: Option<OutputFile>,
}

/// Parses `corrected` or `uncorrected`.
fn row_latency(text: &str) -> Result<RowLatency, ParseError> {
    match text {
        "corrected" => Ok(RowLatency::Corrected),
        "uncorrected" => Ok(RowLatency::Uncorrected),
        _ => Err(refuse(text, "corrected or uncorrected")),
    }
}

/// Parses the name of a span.
fn span(text: &str) -> Result<Span, ParseError> {
    const EXPECTED: &str = "a span: corrected, uncorrected, wire, ttfb, connect, tls or send_lag";
    SPANS.into_iter().find(|span| span.name() == text).ok_or_else(|| refuse(text, EXPECTED))
}

/// A file to be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WantedFile<'a> {
    /// The flag as typed: `--json`.
    pub(crate) flag: &'static str,
    pub(crate) place: &'a OutputFile,
    pub(crate) format: FileFormat,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// The summary.
    Json,
    /// The page, of one run or of several.
    Html,
    /// The run in the format of another program.
    Export(Export),
}

impl ReportFiles {
    /// Returns the files that were asked for.
    pub(crate) fn wanted(&self) -> Vec<WantedFile<'_>> {
        let export = FileFormat::Export;
        let vegeta = |format| export(Export::Vegeta(format, self.rows_latency));
        let all = [
            ("--json", &self.json, FileFormat::Json),
            ("--html", &self.html, FileFormat::Html),
            ("--csv", &self.csv, export(Export::Csv)),
            ("--ndjson", &self.ndjson, export(Export::Ndjson)),
            ("--hgrm", &self.hgrm, export(Export::Hgrm(self.span))),
            ("--hlog", &self.hlog, export(Export::Hlog)),
            ("--vegeta-csv", &self.vegeta_csv, vegeta(RowFormat::Csv)),
            ("--vegeta-json", &self.vegeta_json, vegeta(RowFormat::Json)),
            ("--junit", &self.junit, export(Export::Junit)),
            ("--markdown", &self.markdown, export(Export::Markdown)),
        ];
        let wanted = all.into_iter().filter_map(|(flag, place, format)| {
            let place = place.as_ref()?;
            Some(WantedFile { flag, place, format })
        });
        wanted.collect()
    }
}
