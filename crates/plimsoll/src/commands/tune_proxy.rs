//! `plimsoll tune haproxy` and `plimsoll tune nginx`: a configuration for the installed program.

use std::io;
use std::io::Write;

use plimsoll_lab::Installed;
use plimsoll_model::units::grouped;
use plimsoll_sys::whole_file::WholeFile;
use plimsoll_tune::proxy::Dialect;

use super::printed::say;
use super::tried;
use crate::exit::{Result, Stop};
use crate::flags::ProxyFlags;
use crate::plan::Inputs;
use crate::plan::tuned_proxy::{TunedProxy, build};

pub(crate) fn run(dialect: &'static Dialect, flags: &ProxyFlags) -> Result<()> {
    let proxy = build(dialect, flags, &Inputs::of_host(io::empty()))?;
    let checked = check(&proxy)?;
    if let Some(warning) = proxy.goal.too_fast() {
        let _ = writeln!(io::stderr(), "{warning}");
    }
    write(&proxy, &checked, flags)?;
    if flags.is_tried { tried::run(&proxy, flags.budget) } else { Ok(()) }
}

fn write(proxy: &TunedProxy, checked: &str, flags: &ProxyFlags) -> Result<()> {
    let Some(path) = &flags.out else {
        return say(&format!("{}# {checked}\n", proxy.configuration.text));
    };
    WholeFile::write(path, proxy.configuration.text.as_bytes()).map_err(|error| {
        Stop::CannotRun(format!("cannot write {}: {error}; name another --out", path.display()))
    })?;
    let files = grouped(proxy.configuration.descriptors);
    say(&format!(
        "{}: {checked}\n{}\nopen files of a process: {files}; plimsoll doctor -c {} --role proxy lists \
         every limit of a host\n",
        path.display(),
        proxy.configuration.memory.line(),
        proxy.goal.connections
    ))
}

/// Lets the program check its configuration; says who has.
fn check(proxy: &TunedProxy) -> Result<String> {
    let TunedProxy { installed, configuration, .. } = proxy;
    let Installed { dialect, version_text, .. } = installed;
    let by = format!("{} {version_text} {}", dialect.kind, dialect.check_flag);
    match installed.check(&configuration.text) {
        Ok(()) => Ok(format!("accepted by {by}")),
        // It opens files and ports that only its own user may.
        Err(error) if error.to_string().contains("Permission denied") => {
            Ok(format!("{by} could not open everything as this user; check it as root"))
        }
        Err(error) => Err(Stop::CannotRun(format!(
            "{error}; nothing was written. If certificate and backends are right, report this as a bug"
        ))),
    }
}
