//! The compact state against the rustls object, which is the reference: in the same scenario both
//! send the same bytes and report the same.

use proptest::prelude::*;
use rustls::CipherSuite;

use plimsoll_model::ErrorClass;

use super::pair::Pair;
use super::seeded::{SUITES, Settings, World};
use crate::compact::Side;
use crate::handshaking::Afterwards;
use crate::{HandshakeKind, TlsError};

/// A step after a handshake.
#[derive(Clone, Debug)]
enum Step {
    Write(Side, usize),
    Close(Side),
    /// Delivers waiting bytes in pieces of this size.
    Deliver(usize),
    /// One bit of what this side has for the other is turned over on its way.
    Damage(Side, usize),
}

/// Everything that is observable in one run.
#[derive(Debug, PartialEq, Eq)]
struct Trace {
    client_sent: Vec<u8>,
    server_sent: Vec<u8>,
    client_got: Vec<u8>,
    server_got: Vec<u8>,
    closed: (bool, bool),
    kind: Option<HandshakeKind>,
    errors: Vec<ErrorClass>,
}

impl Trace {
    /// Describes the run without its bytes, which are unreadable.
    fn outline(&self) -> String {
        format!(
            "client sent {} and got {}, server sent {} and got {}, closed {:?}, errors {:?}",
            self.client_sent.len(),
            self.client_got.len(),
            self.server_sent.len(),
            self.server_got.len(),
            self.closed,
            self.errors
        )
    }
}

fn note(errors: &mut Vec<ErrorClass>, outcome: Result<(), TlsError>) {
    errors.extend(outcome.err().map(|error| error.class()));
}

fn write(pair: &mut Pair, side: Side, bytes: usize, errors: &mut Vec<ErrorClass>) {
    let bytes: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
    let end = if side == Side::Client { &mut pair.client } else { &mut pair.server };
    note(errors, end.write(&bytes));
}

/// Plays `steps` on a new connection.
fn play(world: &World, modes: (Afterwards, Afterwards), steps: &[Step]) -> Trace {
    let mut pair = Pair::of(world.client(modes.0), world.server(modes.1));
    let mut errors = Vec::new();
    pair.settle();
    for step in steps {
        if !errors.is_empty() {
            break;
        }
        match *step {
            Step::Write(side, bytes) => write(&mut pair, side, bytes, &mut errors),
            Step::Close(Side::Client) => pair.client.close(),
            Step::Close(Side::Server) => pair.server.close(),
            Step::Deliver(step_bytes) => pair.step_bytes = step_bytes,
            Step::Damage(side, at) => {
                let (from, to) = match side {
                    Side::Client => (&mut pair.client, &mut pair.server),
                    Side::Server => (&mut pair.server, &mut pair.client),
                };
                let mut wire = from.take_out();
                // Headers are left alone: to know them wrong, one may be as early as one likes.
                if wire.len() > 30 {
                    let last = wire.len() - 1 - at % 16;
                    wire[last] ^= 1;
                }
                note(&mut errors, to.receive(&wire));
            }
        }
        if matches!(step, Step::Deliver(_) | Step::Damage(..)) {
            let (client, server) = pair.run();
            note(&mut errors, client);
            note(&mut errors, server);
        }
    }
    let (client, server) = pair.run();
    note(&mut errors, client);
    note(&mut errors, server);
    Trace {
        closed: (pair.client.peer_closed(), pair.server.peer_closed()),
        kind: pair.client.session.handshake().map(|handshake| handshake.kind),
        client_sent: pair.client.sent,
        server_sent: pair.server.sent,
        client_got: pair.client.got,
        server_got: pair.server.got,
        errors,
    }
}

/// Plays `steps` with every mixture of states, twice where sessions are resumed.
fn compare(settings: Settings, steps: &[Step]) -> Vec<Trace> {
    let compact =
        if settings.resumption { Afterwards::SettleThenCompact } else { Afterwards::Compact };
    let keep = Afterwards::Keep;
    let run = |modes| {
        let world = World::new(settings);
        let count = if settings.resumption { 2 } else { 1 };
        (0..count).map(|_| play(&world, modes, steps)).collect::<Vec<_>>()
    };
    let reference = run((keep, keep));
    for modes in [(compact, keep), (keep, Afterwards::Compact), (compact, Afterwards::Compact)] {
        for (seen, expected) in run(modes).iter().zip(&reference) {
            assert!(
                seen == expected,
                "{modes:?} {settings:?} {steps:?}\n{}\nrustls:\n{}",
                seen.outline(),
                expected.outline()
            );
        }
    }
    reference
}

const BOTH: [Side; 2] = [Side::Client, Side::Server];

#[test]
fn every_suite_sends_what_rustls_sends() {
    let mut steps = Vec::new();
    for bytes in [0, 1, 100, 16_384, 16_385, 50_000] {
        steps.extend(BOTH.map(|side| Step::Write(side, bytes)));
        steps.push(Step::Deliver(1 << 20));
    }
    steps.extend([Step::Close(Side::Client), Step::Deliver(7), Step::Close(Side::Server)]);
    for suite in SUITES {
        for (resumption, tickets) in [(false, 0), (false, 2), (true, 2)] {
            let settings = Settings { resumption, tickets, ..Settings::of(suite) };
            let seen = compare(settings, &steps);
            assert_eq!(seen[0].server_got.len(), 82_870);
            assert_eq!(seen[0].closed, (true, true));
            assert_eq!(seen[0].errors, []);
            if resumption {
                assert_eq!(seen[1].kind, Some(HandshakeKind::Resumed), "{suite:?}");
            }
        }
    }
}

#[test]
fn keys_are_renewed_at_the_same_record() {
    for suite in &SUITES[..3] {
        let settings = Settings { records_max: Some(4), ..Settings::of(*suite) };
        let mut steps = Vec::new();
        for bytes in [10, 20, 30, 40_000, 100_000, 1] {
            steps.extend([Step::Write(Side::Client, bytes), Step::Write(Side::Server, bytes)]);
            steps.push(Step::Deliver(1 << 20));
        }
        let seen = compare(settings, &steps);
        assert_eq!(seen[0].client_got.len(), 140_061);
        assert_eq!(seen[0].errors, []);
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let side = prop::sample::select(BOTH.to_vec());
    let sizes = prop_oneof![4 => 0usize..200, 1 => 16_000usize..40_000];
    prop_oneof![
        6 => (side.clone(), sizes).prop_map(|(side, bytes)| Step::Write(side, bytes)),
        4 => (1usize..3000).prop_map(Step::Deliver),
        1 => side.clone().prop_map(Step::Close),
        1 => (side, any::<usize>()).prop_map(|(side, at)| Step::Damage(side, at)),
    ]
}

/// Bytes must not be written after a close. And rustls, built for tests, does not survive damage
/// to what comes after its own close_notify.
fn sound(steps: Vec<Step>) -> Vec<Step> {
    let mut closed = Vec::new();
    steps
        .into_iter()
        .filter(|step| match step {
            Step::Write(side, _) => !closed.contains(side),
            Step::Close(side) => {
                closed.push(*side);
                true
            }
            Step::Damage(from, _) => closed.iter().all(|side| side == from),
            Step::Deliver(_) => true,
        })
        .collect()
}

fn any_suite() -> impl Strategy<Value = CipherSuite> {
    prop::sample::select(SUITES.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_scenario_gives_what_rustls_gives(
        suite in any_suite(),
        tickets in 0usize..3,
        resumption in any::<bool>(),
        few_records in any::<bool>(),
        steps in prop::collection::vec(any_step(), 0..14),
    ) {
        let tls13 = SUITES[..3].contains(&suite);
        let records_max = (few_records && tls13).then_some(5);
        compare(Settings { suite, resumption, tickets, records_max }, &sound(steps));
    }
}
