//! `plimsoll lab sweep` into a job: a laboratory for every combination of the values, each planned as
//! `plimsoll lab` plans it.

use std::collections::{BTreeMap, HashSet};

use plimsoll_capacity::compare::ROUNDS_DEFAULT;
use plimsoll_lab::{SutSettings, describe};
use plimsoll_model::target::REDACTED;
use plimsoll_model::units::parse_size;
use plimsoll_model::{Nanos, SutKind};
use plimsoll_tls::KeyKind;

use super::in_turn::TurnsJob;
use super::publish::PublishJob;
use super::{Inputs, outputs, publish};
use crate::exit::Result;
use crate::flags;
use crate::flags::{Command, LabExperiment, SweepFlags};

/// Most combinations: each is a laboratory that is up all the time.
const VALUES_MAX: usize = 16;
const BUDGET_DEFAULT: Nanos = Nanos::from_secs(240);
/// The shortest time of one value in one round, with opening its pool.
pub(crate) const BLOCK_MIN: Nanos = Nanos::from_millis(3_200);
/// Fewest rounds, and one before them.
const ROUNDS_NEEDED: u64 = 9;
/// Starting servers.
const BEFORE: Nanos = Nanos::from_secs(15);

/// Every key but the settings of one kind of server.
const KEYS: &str =
    "sut, sut-cpus, backends, tls, key, resume, keep-alive, connections, size, logging, threads";
/// Every value of a key that is not a number.
const WORDS: &str =
    "on off auto full fair none restricted listener connection ecdsa-p256 rsa2048 mosquitto";
/// The longest number with its unit.
const NUMBER_BYTES_MAX: usize = 20;

/// Returns a `--vary` as it may be archived: `tls=on,off`. The names of a sweep's rows hold no other values either.
pub(crate) fn vary_shown(text: &str) -> Option<String> {
    let (key, values) = axis(text).ok()?;
    let is_key = KEYS.split(", ").any(|known| known == key) || !with_option(key).is_empty();
    let shown =
        |value: &&str| if is_value(value) { (*value).to_owned() } else { REDACTED.to_owned() };
    is_key.then(|| format!("{key}={}", values.iter().map(shown).collect::<Vec<_>>().join(",")))
}

/// Returns every key, as complaints list them.
fn keys() -> String {
    let options = SutKind::ALL.into_iter().flat_map(|kind| describe(kind).options);
    options.fold(KEYS.to_owned(), |keys, option| format!("{keys}, {option}"))
}

/// Returns the kinds of server that have the setting `key`.
fn with_option(key: &str) -> Vec<SutKind> {
    SutKind::ALL.into_iter().filter(|kind| describe(*kind).has_option(key)).collect()
}

/// Reports whether `value` is one that a setting may have: a number, with a unit or without, or a word of a fixed set.
fn is_value(value: &str) -> bool {
    let number = value.strip_prefix('-').unwrap_or(value);
    let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    let is_number = number.len() <= NUMBER_BYTES_MAX
        && number.len() - digits.len() <= "KiB".len()
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number || WORDS.split(' ').any(|word| word == value) || value.parse::<SutKind>().is_ok()
}

/// The settings of a laboratory that its flags cannot express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variation {
    /// `true` if clients speak TLS.
    pub(crate) is_plain: bool,
    /// The key of the certificate.
    pub(crate) key: Option<KeyKind>,
    /// The certificate chain and its key in one PEM text, for a proxy; else one is made.
    pub(crate) certificate: Option<String>,
    /// CPUs of the SUT.
    pub(crate) sut_cpus: Option<usize>,
    /// Other settings.
    pub(crate) settings: SutSettings,
    /// The kinds of server that have these settings; `None` for all.
    pub(crate) of: Option<Vec<SutKind>>,
}

/// One laboratory of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SizedValue {
    /// `tls=on size=1KiB`.
    pub(crate) name: String,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) experiment: LabExperiment,
    pub(crate) variation: Variation,
}

/// A sweep, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SizingJob {
    /// The first is what the others are compared with.
    pub(crate) values: Vec<SizedValue>,
    /// `requests/s` or `handshakes/s`.
    pub(crate) unit: &'static str,
    pub(crate) turns: TurnsJob,
    /// Publishing of figures meanwhile.
    pub(crate) publish: PublishJob,
}

/// Returns the shortest budget for `values` values.
pub(crate) fn budget_min(values: usize) -> Nanos {
    BEFORE + Nanos(BLOCK_MIN.0 * values as u64 * ROUNDS_NEEDED)
}

/// Checks the flags of `lab sweep`.
pub(crate) fn build(flags: &SweepFlags, inputs: &Inputs) -> Result<SizingJob> {
    outputs::check(&flags.output)?;
    let axes: Vec<(&str, Vec<&str>)> =
        flags.vary.iter().map(|text| axis(text)).collect::<Result<_, _>>()?;
    let mut known = HashSet::new();
    if let Some((key, _)) = axes.iter().find(|(key, _)| !known.insert(key)) {
        refuse!("--vary {key} is given twice"; "name all of its values at once");
    }
    let combinations = combinations(&axes);
    let count = combinations.len();
    refuse_if!(!(2..=VALUES_MAX).contains(&count);
        "--vary makes {count} combinations, and 2 to {VALUES_MAX} can be measured in turn";
        "name more or fewer values");
    let values: Vec<_> = combinations
        .iter()
        .map(|settings| value(settings, &flags.all))
        .collect::<Result<_, _>>()?;
    let unit = unit(&values[0].experiment)?;
    let needed = budget_min(count);
    let budget = flags.budget.unwrap_or_else(|| BUDGET_DEFAULT.max(needed));
    refuse_if!(budget < needed;
        "--budget {budget} is too short for eight rounds of {count} values";
        "give {needed} or more");
    let turns = TurnsJob {
        rounds: flags.rounds.unwrap_or(ROUNDS_DEFAULT),
        budget: Some(budget),
        seed: flags.seed,
        output: flags.output.clone(),
    };
    let publish = publish::of_output(&flags.output, inputs)?;
    Ok(SizingJob { values, unit, turns, publish })
}

/// Parses `KEY=V1,V2`.
fn axis(text: &str) -> Result<(&str, Vec<&str>)> {
    let refuse = || usage!("--vary {text:?} is not KEY=V1,V2"; "the keys are {}", keys());
    let (key, values) = text.split_once('=').ok_or_else(refuse)?;
    let values: Vec<&str> = values.split(',').map(str::trim).collect();
    if key.is_empty() || values.iter().any(|value| value.is_empty()) {
        return Err(refuse());
    }
    Ok((key, values))
}

/// Returns every combination, the last key changing fastest.
fn combinations<'a>(axes: &[(&'a str, Vec<&'a str>)]) -> Vec<Vec<(&'a str, &'a str)>> {
    let mut all = vec![Vec::new()];
    for (key, values) in axes {
        // More are refused anyway.
        all.truncate(VALUES_MAX + 1);
        let with = |one: &Vec<(&'a str, &'a str)>| {
            let one = one.clone();
            values.iter().map(move |value| [one.clone(), vec![(*key, *value)]].concat())
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

fn value(settings: &[(&str, &str)], all: &[String]) -> Result<SizedValue> {
    let mut args = vec!["lab".to_owned()];
    args.extend_from_slice(all);
    let mut variation = Variation::default();
    for (key, value) in settings {
        apply(key, value, &mut args, &mut variation)?;
    }
    let Command::Lab(lab) = flags::parse_line(&args)? else {
        refuse!("a sweep is of a laboratory"; "give flags of plimsoll lab after --");
    };
    let Some(experiment) = lab.experiment() else {
        refuse!("a sweep cannot be of sweeps"; "give flags of plimsoll lab after --");
    };
    unit(experiment)?;
    refuse_if!(experiment.output().out.is_some() || experiment.output().json.is_some();
        "a sweep has one archive and one result"; "give --out and --json before the two dashes");
    let names: Vec<_> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok(SizedValue {
        name: names.join(" "),
        settings: settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        experiment: experiment.clone(),
        variation,
    })
}

/// Returns the unit of what an experiment gives; others are not what can be measured in turns of seconds.
fn unit(experiment: &LabExperiment) -> Result<&'static str> {
    match experiment {
        LabExperiment::Rate(_) => Ok("requests/s"),
        LabExperiment::Handshakes(_) => Ok("handshakes/s"),
        _ => refuse!("only rates and handshakes can be measured in turns of seconds";
            "name rate or handshakes after --"),
    }
}

/// Applies one value of one key: a flag of `lab`, or what no flag says.
fn apply(key: &str, value: &str, args: &mut Vec<String>, variation: &mut Variation) -> Result<()> {
    let refuse =
        |expected: &str| usage!("--vary {key}: {value:?} is no value of it"; "use {expected}");
    let switch = || match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(refuse("on or off")),
    };
    let count = |most: u32| {
        let count = value.parse::<u32>().ok().filter(|count| (1..=most).contains(count));
        count.ok_or_else(|| refuse(&format!("a number from 1 to {most}")))
    };
    match key {
        "sut" | "resume" | "connections" | "backends" => {
            args.extend([format!("--{key}"), value.to_owned()]);
        }
        "sut-cpus" => variation.sut_cpus = Some(count(1_024)? as usize),
        "tls" => variation.is_plain = !switch()?,
        "key" => {
            variation.key = Some(match value {
                "ecdsa-p256" => KeyKind::EcdsaP256,
                "rsa2048" => KeyKind::Rsa2048,
                _ => return Err(refuse("ecdsa-p256 or rsa2048")),
            });
        }
        "keep-alive" => {
            if !switch()? {
                args.push("--no-keepalive".to_owned());
            }
        }
        "size" => {
            let bytes = parse_size(value).map_err(|_| refuse("a size such as 100, 4KiB or 1MB"))?;
            args.extend(["-H".to_owned(), format!("size: {bytes}")]);
        }
        "logging" => {
            variation.settings.logs = switch()?;
            variation.of.get_or_insert_with(|| SutKind::proxies().collect());
        }
        "threads" => {
            variation.settings.threads = Some(count(64)?);
            variation.of.get_or_insert_with(|| SutKind::proxies().collect());
        }
        _ => {
            let kinds = with_option(key);
            refuse_if!(kinds.is_empty();
                "--vary {key}: there is no such key"; "the keys are {}", keys());
            if !is_value(value) {
                let expected =
                    "a number such as 16384, 16k or 5s, or a word such as on, off or auto";
                return Err(refuse(expected));
            }
            variation.settings.options.push(format!("{key} {value}"));
            variation.of = Some(kinds);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{LabCommand, parse_words};

    fn built(words: &[&str]) -> Result<SizingJob> {
        let words = [&["lab", "sweep"], words].concat();
        let Command::Lab(LabCommand::Sweep(flags)) = parse_words(&words)? else {
            panic!("{words:?}")
        };
        build(&flags, &Inputs::of_host(std::io::empty()))
    }

    #[test]
    fn every_combination_is_a_laboratory() {
        let words = ["--vary", "tls=on,off", "--vary", "size=100,4KiB", "--", "--sut", "haproxy"];
        let job = built(&words).unwrap();
        let names: Vec<_> = job.values.iter().map(|value| value.name.as_str()).collect();
        assert_eq!(
            names,
            ["tls=on size=100", "tls=on size=4KiB", "tls=off size=100", "tls=off size=4KiB"]
        );
        assert!(!job.values[0].variation.is_plain && job.values[2].variation.is_plain);
        assert_eq!((job.unit, job.turns.rounds), ("requests/s", 24));
        let handshakes = built(&["--vary", "key=rsa2048,ecdsa-p256", "--", "handshakes"]).unwrap();
        assert_eq!(handshakes.unit, "handshakes/s");
        assert_eq!(handshakes.values[0].variation.key, Some(KeyKind::Rsa2048));
    }

    #[test]
    fn no_key_has_a_value_that_could_be_a_secret() {
        const SECRET: &str = "hunter2-sesame";
        for key in keys().replace("tune.*", "tune.bufsize").split(", ") {
            let vary = format!("{key}=1,{SECRET}");
            assert!(built(&["--vary", &vary]).is_err(), "{vary}");
            assert_eq!(vary_shown(&vary), Some(format!("{key}=1,{REDACTED}")));
        }
        assert_eq!(vary_shown(&format!("{SECRET}=on,off")), None);
        for value in ["16384", "16k", "4KiB", "1.5", "-1", "10s", "50%", "on", "rsa2048"] {
            assert!(is_value(value), "{value}");
        }
        for value in ["", "-", "k", "12345678901234567890123", "1hunter2", "0x1f", "one"] {
            assert!(!is_value(value), "{value}");
        }
    }

    #[test]
    fn what_cannot_be_is_one_line_with_what_can() {
        for (words, complaint) in [
            (
                &["--vary", "colour=red,blue"][..],
                "there is no such key; the keys are sut, sut-cpus",
            ),
            (&["--vary", "tls"], "is not KEY=V1,V2; the keys are sut"),
            (&["--vary", "tls=on,,off"], "is not KEY=V1,V2"),
            (&["--vary", "tls=on,maybe"], "--vary tls: \"maybe\" is no value of it; use on or off"),
            (&["--vary", "key=dsa,rsa2048"], "use ecdsa-p256 or rsa2048"),
            (&["--vary", "size=1,big"], "use a size such as 100"),
            (&["--vary", "sut=haproxy,apache"], "apache"),
            (&["--vary", "resume=0,2"], "2"),
            (&["--vary", "tune.bufsize=1 2,3"], "use a number such as"),
            (&["--vary", "tune.bufsize 1\nuser=1,2"], "there is no such key"),
            (&["--vary", "tls=on"], "--vary makes 1 combinations"),
            (&["--vary", "tls=on,off", "--vary", "tls=off,on"], "--vary tls is given twice"),
            (
                &["--vary", "tls=on,off", "--budget", "10s"],
                "too short for eight rounds of 2 values",
            ),
            (&["--vary", "tls=on,off", "--", "hold", "-c", "9"], "only rates and handshakes"),
            (&["--vary", "tls=on,off", "--", "--json", "a"], "one archive and one result"),
        ] {
            let stop = built(words).unwrap_err();
            let text = stop.complaint().unwrap();
            assert_eq!(stop.code(), 2, "{text}");
            assert!(text.contains(complaint) && !text.contains('\n'), "{text}");
        }
        let many = "connections=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17";
        assert!(
            built(&["--vary", many]).unwrap_err().complaint().unwrap().contains("17 combinations")
        );
    }
}
