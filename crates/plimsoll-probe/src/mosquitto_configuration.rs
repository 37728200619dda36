//! The configuration of a running mosquitto: the file of its command line and the files of its `include_dir`.

use crate::file;
use std::path::{Path, PathBuf};

/// Files that are read in all.
const FILES_MAX: usize = 64;

/// Settings of a mosquitto.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// Listeners, at least one.
    pub(crate) listeners: u64,
    /// Connections that all listeners may have together, if that is known.
    pub(crate) connections_max: Option<u64>,
    /// Most seconds of keep-alive that a client may ask for.
    pub(crate) max_keepalive_s: Option<u64>,
}

/// Reads the configuration of process `pid` below `root` (`/`); `None` of other programs, and of one without a file.
pub(crate) fn read(root: &Path, pid: u32) -> Option<Configuration> {
    let title = file::command_line(root, pid);
    let words: Vec<&str> = title.split('\0').filter(|word| !word.is_empty()).collect();
    let program = Path::new(words.first()?).file_name()?;
    if program != "mosquitto" {
        return None;
    }
    let named = words.windows(2).find(|pair| ["-c", "--config-file"].contains(&pair[0]))?[1];
    let named = file::working_directory(root, pid).join(named);
    let mut text = file::text(file::below(root, &named)).ok()?;
    let folders: Vec<PathBuf> = values(&text, "include_dir").map(PathBuf::from).collect();
    for folder in folders {
        let files = file::listed(&file::below(root, &folder), "conf").unwrap_or_default();
        for file in files.iter().take(FILES_MAX) {
            text.push('\n');
            text.push_str(&file::text(file).unwrap_or_default());
        }
    }
    Some(of_text(&text))
}

fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    // A comment has a separate line.
    text.lines().filter_map(move |line| {
        let rest = line.trim().strip_prefix(name)?;
        rest.starts_with(char::is_whitespace).then(|| rest.trim())
    })
}

fn of_text(text: &str) -> Configuration {
    let number = |name| values(text, name).filter_map(|value| value.parse::<i64>().ok()).last();
    let positive = |value: i64| u64::try_from(value).ok().filter(|value| *value > 0);
    // Each belongs to the listener before it; 0 and less are no limit.
    let of_listeners: Vec<u64> =
        values(text, "max_connections").filter_map(|value| positive(value.parse().ok()?)).collect();
    let listeners = (values(text, "listener").count() + values(text, "port").count()).max(1) as u64;
    let of_all = number("global_max_connections").and_then(positive);
    let sum = (of_listeners.len() as u64 == listeners).then(|| of_listeners.iter().sum());
    Configuration {
        listeners,
        connections_max: [of_all, sum].into_iter().flatten().min(),
        max_keepalive_s: number("max_keepalive").and_then(positive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::tree;

    #[test]
    fn the_file_of_the_command_line_and_its_folder_are_read() {
        let root = tree(&[
            ("proc/7/cmdline", "/usr/sbin/mosquitto\0-c\0/etc/m/m.conf\0"),
            ("etc/m/m.conf", "# max_connections 9\nmax_keepalive 10\ninclude_dir /etc/m/more\n"),
            ("etc/m/more/a.conf", "listener 1883 127.0.0.1\nmax_connections 20\n"),
            ("etc/m/more/a.txt", "max_connections 1\n"),
            ("proc/8/cmdline", "/usr/bin/vim\0-c\0/etc/m/m.conf\0"),
            ("proc/9/cmdline", "mosquitto\0"),
        ]);
        let read = |pid| read(root.path(), pid);
        let expected =
            Configuration { listeners: 1, connections_max: Some(20), max_keepalive_s: Some(10) };
        assert_eq!(read(7), Some(expected));
        assert_eq!((read(8), read(9), read(10)), (None, None, None));
    }

    #[test]
    fn a_limit_of_some_listeners_is_none_of_all() {
        let most = |text: &str| of_text(text).connections_max;
        assert_eq!(
            most("listener 1\nmax_connections 5\nlistener 2\nmax_connections 6\n"),
            Some(11)
        );
        assert_eq!(most("listener 1\nmax_connections 5\nlistener 2\n"), None);
        assert_eq!(most("listener 1\nlistener 2\nglobal_max_connections 7\n"), Some(7));
        assert_eq!(most("max_connections -1\n"), None);
        assert_eq!(of_text(""), Configuration { listeners: 1, ..Configuration::default() });
    }
}
