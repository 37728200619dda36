//! The words for trials that were slower than the rest of a run.

use plimsoll_model::trial::{Slow, SlowSeconds, Slower};

use crate::terminal::layout::cpu_percent;

/// Lines that are shown; more say the same again.
const SHOWN: usize = 4;

/// Returns a line for each of the slowest trials, in the order of the trials, and one for the rest.
pub(crate) fn lines(slow: &[Slow]) -> Vec<String> {
    let mut shown: Vec<&Slow> = slow.iter().collect();
    shown.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    shown.truncate(SHOWN);
    shown.sort_by_key(|one| one.trial);
    let mut lines: Vec<String> = shown.into_iter().map(line).collect();
    if slow.len() > SHOWN {
        lines.push(format!("{} more findings of this kind are in the summary", slow.len() - SHOWN));
    }
    lines
}

/// Returns the time lost, relative to the trial.
fn weight(slow: &Slow) -> f64 {
    match slow.what {
        Slower::Host(SlowSeconds { by, seconds, of })
        | Slower::Clients(SlowSeconds { by, seconds, of }) => {
            by * f64::from(seconds) / f64::from(of.max(1))
        }
        Slower::Server { by, .. } => by,
    }
}

fn line(slow: &Slow) -> String {
    let trial = slow.trial;
    match slow.what {
        Slower::Host(seconds) => {
            format!("Trial {trial}: the server's CPUs were {}", slower(seconds))
        }
        Slower::Clients(seconds) => {
            format!(
                "Trial {trial}: the clients' CPUs were {}; plimsoll itself was slower",
                slower(seconds)
            )
        }
        Slower::Server { by, user, system } => {
            let part =
                |name: &str, change: Option<f64>| Some(format!("{name} {}", signed(change?)));
            let parts: Vec<String> =
                [part("user", user), part("system", system)].into_iter().flatten().collect();
            let parts =
                if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
            format!(
                "Trial {trial}: the server needed {} % more CPU time per answer than at like loads{parts}, on \
                 CPUs as fast as usual",
                cpu_percent(by)
            )
        }
    }
}

fn slower(SlowSeconds { by, seconds, of }: SlowSeconds) -> String {
    format!("{} % slower for {seconds} of {of} s", cpu_percent(by))
}

fn signed(change: f64) -> String {
    let sign = if change < 0.0 { '-' } else { '+' };
    format!("{sign}{} %", cpu_percent(change.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_and_the_server_are_told_apart() {
        let seconds = SlowSeconds { by: 0.16, seconds: 4, of: 30 };
        let server = Slower::Server { by: 0.16, user: Some(0.2), system: Some(-0.02) };
        let slow = [
            Slow { trial: 7, what: server },
            Slow { trial: 3, what: Slower::Host(seconds) },
            Slow { trial: 9, what: Slower::Clients(seconds) },
        ];
        assert_eq!(
            lines(&slow),
            [
                "Trial 3: the server's CPUs were 16 % slower for 4 of 30 s",
                "Trial 7: the server needed 16 % more CPU time per answer than at like loads (user +20 %, \
                 system -2 %), on CPUs as fast as usual",
                "Trial 9: the clients' CPUs were 16 % slower for 4 of 30 s; plimsoll itself was slower",
            ]
        );
        let many: Vec<Slow> =
            (0..9).map(|trial| Slow { trial, what: Slower::Host(seconds) }).collect();
        assert_eq!(lines(&many).len(), SHOWN + 1);
        assert!(lines(&[]).is_empty());
    }
}
