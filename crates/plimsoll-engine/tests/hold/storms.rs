//! Storms: connections that are cut at once, and clients that come back.

use plimsoll_model::Nanos;
use plimsoll_model::plan::{HoldPlan, LoadPlan, Steer, Timeouts};
use plimsoll_model::storm::{Cut, Reconnect, StormClients};

use crate::PLAIN;
use crate::driver::{Driver, OverTls, plan, ramp, sweep, trim};
use crate::scripted::ScriptedServer;
use crate::served::serve;

fn storm(cut: u64, how: Cut, reconnect: Reconnect) -> Steer {
    Steer::Storm { cut, at: Nanos::ZERO, clients: StormClients { cut: how, reconnect } }
}

#[test]
fn all_clients_come_back_however_they_were_cut() {
    let (_server, address) = serve(true);
    let mut driver = Driver::start(plan(address, PLAIN).over_tls());
    driver.steer_and_wait(ramp(100));
    let jitter = Reconnect::Backoff { min: Nanos(1), max: Nanos::from_millis(50), jitter: true };
    let policies = [Reconnect::Immediate, Reconnect::Rate(1_000.0), jitter];
    for (how, policy) in Cut::ALL.iter().zip(policies) {
        driver.steer_and_wait(storm(60, *how, policy));
        assert_eq!(driver.whole.connections.held_end, 100, "{how:?}");
    }
    let counts = driver.whole.storm.clone();
    assert_eq!((counts.cut, counts.back, counts.missing()), (180, 180, 0));
    assert_eq!((counts.attempts, counts.retries, counts.gave_up), (180, 0, 0));
    assert_eq!(counts.recovery.count(), 180);
    // Requests of clients that come back are no operations, and a cut is no loss.
    assert_eq!((driver.whole.scheduled, driver.whole.failures.lost_held.total()), (0, 0));
    driver.steer_and_wait(sweep(Nanos::from_millis(10)));
    assert_eq!(driver.whole.ok, 100);
    driver.steer_and_wait(trim(0));
    let whole = driver.end();
    assert_eq!(whole.connections.opened, 280);
}

#[test]
fn heartbeats_of_clients_go_on_once_all_are_back() {
    let (_server, address) = serve(false);
    let hold = HoldPlan { heartbeat: Some(Nanos::from_millis(100)), ..PLAIN };
    let mut driver = Driver::start(plan(address, hold));
    driver.steer_and_wait(ramp(10));
    driver.steer_and_wait(storm(10, Cut::Rst, Reconnect::Immediate));
    let before = driver.whole.ok;
    // Ten connections in ten periods; the cut ones alone would be silent.
    driver.until(|whole| whole.ok >= before + 100);
    driver.end();
}

#[test]
fn clients_give_up_and_try_again_until_a_trim_ends_the_storm() {
    let mut server = ScriptedServer::start();
    let plan = plan(server.address(), PLAIN);
    let timeouts = Timeouts { connect: Nanos::from_millis(200), ..plan.timeouts };
    let plan = LoadPlan { timeouts, ..plan };
    let mut driver = Driver::start(plan);
    driver.steer_and_wait(ramp(20));
    server.accept(20);
    // The kernel accepts for it, and nothing is answered.
    let id = driver.steer(storm(15, Cut::Fin, Reconnect::Immediate));
    driver.until(|whole| whole.storm.gave_up >= 30);
    driver.steer_and_wait(trim(20));
    // The trim has ended the storm.
    driver.wait_for(id);
    let counts = driver.whole.storm.clone();
    assert_eq!((counts.cut, counts.back), (15, 0));
    assert!(counts.retries >= 30 && counts.gave_up_sent == counts.gave_up, "{counts:?}");
    assert_eq!(driver.whole.connections.held_end, 5);
    // What is held counts as tried: the same ramp opens the missing ones.
    driver.steer_and_wait(ramp(20));
    assert_eq!(driver.whole.connections.held_end, 20);
    let whole = driver.end();
    assert_eq!((whole.scheduled, whole.errors_total()), (0, 0));
    // Attempts that clients give up are counted by the storm alone.
    assert_eq!((whole.connections.failed, whole.failures.attempts.total()), (0, 0));
}

#[test]
fn clients_that_stop_trying_end_a_storm() {
    let mut server = ScriptedServer::start();
    let plan = plan(server.address(), PLAIN);
    let timeouts = Timeouts { connect: Nanos::from_millis(200), ..plan.timeouts };
    let mut driver = Driver::start(LoadPlan { timeouts, ..plan });
    driver.steer_and_wait(ramp(20));
    server.accept(20);
    let id = driver.steer(storm(15, Cut::Rst, Reconnect::Immediate));
    driver.until(|whole| whole.storm.gave_up >= 15);
    driver.steer_and_wait(Steer::Withdraw { share: 0.4 });
    // Each thread rounds up.
    driver.until(|whole| (6..=7).contains(&whole.storm.withdrawn));
    // The others try on.
    let tried = driver.whole.storm.retries;
    driver.until(|whole| whole.storm.retries >= tried + 27);
    driver.steer_and_wait(Steer::Withdraw { share: 1.0 });
    driver.wait_for(id);
    let counts = driver.whole.storm.clone();
    assert_eq!((counts.withdrawn, counts.missing(), counts.trying()), (15, 15, 0));
    driver.steer_and_wait(trim(20));
    driver.end();
}

#[test]
fn a_storm_waits_for_its_instant() {
    let (_server, address) = serve(false);
    let mut driver = Driver::start(plan(address, PLAIN));
    driver.steer_and_wait(ramp(10));
    let at = Nanos::from_secs(driver.seconds + 3);
    let clients = StormClients { cut: Cut::Rst, reconnect: Reconnect::Immediate };
    let id = driver.steer(Steer::Storm { cut: 10, at, clients });
    driver.until(|whole| whole.storm.cut > 0);
    assert!(driver.seconds > 3, "{}", driver.seconds);
    driver.wait_for(id);
    let counts = driver.whole.storm.clone();
    assert_eq!((counts.cut, counts.back), (10, 10));
    // Recovery counts from that instant, and not from the order, which was given at least 2 s before.
    assert!(counts.recovery.max() < Some(Nanos::from_secs(2)), "{counts:?}");
    driver.end();
}

#[test]
fn a_storm_cuts_no_more_than_is_held() {
    let (server, address) = serve(false);
    let mut driver = Driver::start(plan(address, PLAIN));
    driver.steer_and_wait(ramp(10));
    drop(server);
    driver.until(|whole| whole.failures.lost_held.total() == 10);
    let id = driver.steer(storm(10, Cut::Rst, Reconnect::Immediate));
    // Nothing was held any more, so that nothing is cut.
    driver.wait_for(id);
    assert_eq!(driver.whole.storm.cut, 0);
    driver.end();
}
