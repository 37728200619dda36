//! Hosts that join a hold while it runs, one after the other: each is reached, compared with its part, prepared, and
//! begins with a whole second of the hold.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use plimsoll_model::Nanos;
use plimsoll_model::event::LoadEvent;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{LoadPart, LoadPlan};

use super::{LoadAgents, Share, now, threads_of};
use crate::agent_set::remote_launches;
use crate::coordinator::load_run::{LoadRun, Member};
use crate::coordinator::outcome::Newcomers;
use crate::hosts::HostName;
use crate::link::{Launch, LinkEvent};
use crate::message::{FromAgent, ToAgent};

/// Period of asking who joins.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Timeout of each step of a host, once it is reached.
const STEP_WAIT: Duration = Duration::from_secs(60);
/// Lead of the second with which a host begins, beside four round trips.
const START_AHEAD: Nanos = Nanos::from_secs(1);
const ROUND_TRIPS_AHEAD: u64 = 4;
/// The reason to refuse hosts that join after the hold.
const OVER: &str = "the hold is over";

/// The host that is to join.
pub(super) struct Joining<'a> {
    newcomers: &'a dyn Newcomers,
    asked: Instant,
    waiting: VecDeque<(HostName, Launch, Option<u32>)>,
    /// The one that is on its way.
    next: Option<Newcomer>,
    joined: u32,
}

/// A host on its way.
struct Newcomer {
    name: HostName,
    /// Index of its agent, the last one.
    index: usize,
    /// Threads, if given.
    threads: Option<u32>,
    step: Step,
    deadline: Instant,
}

/// The next expected step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The first message.
    Greeting,
    /// That its clock has been compared.
    Clock,
    Survey,
    Preparation,
    /// That it knows the second with which it begins.
    Start {
        first: u32,
    },
}

impl Step {
    /// Completes *did not*.
    const fn text(self) -> &'static str {
        match self {
            Self::Greeting => "start",
            Self::Clock => "answer pings",
            Self::Survey => "compare itself with its part",
            Self::Preparation => "prepare its part",
            Self::Start { .. } => "say that it begins",
        }
    }
}

impl<'a> Joining<'a> {
    pub(super) fn new(newcomers: &'a dyn Newcomers) -> Self {
        Self { newcomers, asked: Instant::now(), waiting: VecDeque::new(), next: None, joined: 0 }
    }

    /// Asks for new hosts if [`ASK_EVERY`] has passed; `known` are the hosts that take part. An error states why no
    /// host can join.
    fn ask(&mut self, known: impl Iterator<Item = HostName>) -> Result<(), String> {
        if self.asked.elapsed() < ASK_EVERY {
            return Ok(());
        }
        self.asked = Instant::now();
        let waiting = self.waiting.iter().map(|(host, ..)| host.clone());
        let known: Vec<_> = known.chain(waiting).collect();
        let Some(hosts) = self.newcomers.poll(&known)? else { return Ok(()) };
        let launches = remote_launches(&hosts, known.len(), &|| false);
        let launches = launches.map_err(|error| error.to_string())?;
        let each = hosts.hosts.into_iter().zip(launches);
        self.waiting.extend(each.map(|(host, launch)| (host.name, launch, host.threads)));
        Ok(())
    }
}

impl LoadAgents {
    /// Asks who joins, begins with the next one, and gives up one that is overdue.
    pub(super) fn poll_newcomer(&mut self, joining: &mut Joining<'_>, run: &LoadRun) {
        if run.next_second(now()).is_none() {
            // The hold begins, or ends.
            if joining.next.take().is_some() {
                self.forget_newcomer(run);
            }
            return;
        }
        if let Err(why) = joining.ask(self.agents.hosts()) {
            self.agents.notes.push(format!("no host joins: {why}"));
        }
        if joining.next.is_none()
            && let Some((host, launch, threads)) = joining.waiting.pop_front()
        {
            match self.agents.begin(launch) {
                Ok(index) => {
                    let deadline = self.agents.greeting_deadline(index);
                    let step = Step::Greeting;
                    joining.next = Some(Newcomer { name: host, index, threads, step, deadline });
                }
                Err(error) => self.agents.notes.push(format!("{host} does not join: {error}")),
            }
        }
        let Some(newcomer) = &mut joining.next else { return };
        if newcomer.step == Step::Greeting {
            // A copy of the program takes its time.
            newcomer.deadline = self.agents.greeting_deadline(newcomer.index);
        }
        let index = newcomer.index;
        let went_on = match newcomer.step {
            Step::Clock if self.agents.is_clock_settled(index) => {
                let threads = self.shares[index].threads;
                let part = joining.newcomers.part(threads, u64::from(run.threads() + threads));
                newcomer.await_step(Step::Survey);
                self.send_newcomer(index, &ToAgent::Survey(Box::new(part)))
            }
            step if Instant::now() > newcomer.deadline => {
                Err(format!("it did not {} in time", step.text()))
            }
            _ => Ok(()),
        };
        if let Err(why) = went_on {
            joining.next = None;
            self.refuse_newcomer(index, &why, run);
        }
    }

    /// Handles an event of the agent that is about to join.
    pub(super) fn handle_newcomer(
        &mut self,
        joining: &mut Joining<'_>,
        event: LinkEvent,
        run: &mut LoadRun,
        plan: &LoadPlan,
    ) {
        let Some(mut newcomer) = joining.next.take() else { return };
        let name = self.agents.name(newcomer.index).to_owned();
        match self.advance_newcomer(&mut newcomer, joining, event, run, plan) {
            Ok(None) => joining.next = Some(newcomer),
            Ok(Some((threads, first))) => {
                joining.joined += 1;
                self.agents.notes.push(format!(
                    "{name} joins in second {first} with {threads} of {} threads, and opens its share of what is \
                     not open yet",
                    run.threads()
                ));
            }
            Err(why) => self.refuse_newcomer(newcomer.index, &why, run),
        }
    }

    /// Takes the next step; its threads and first second once it takes part. An error says why it does not.
    fn advance_newcomer(
        &mut self,
        newcomer: &mut Newcomer,
        joining: &Joining<'_>,
        event: LinkEvent,
        run: &mut LoadRun,
        plan: &LoadPlan,
    ) -> Result<Option<(u32, u32)>, String> {
        let index = newcomer.index;
        let frame = match event {
            LinkEvent::Closed(ending) => {
                return Err(format!("it {}", self.agents.how_it_ended(index, ending)));
            }
            LinkEvent::Frame(_) if newcomer.step == Step::Greeting => {
                self.agents.greet(index, event).map_err(|error| error.to_string())?;
                let threads = newcomer.threads.unwrap_or_else(|| threads_of(&self.agents, index));
                let threads = threads.saturating_mul(self.threads_times);
                self.shares.push(Share { threads, ..Share::default() });
                newcomer.await_step(Step::Clock);
                return Ok(None);
            }
            LinkEvent::Frame(frame) => *frame,
        };
        match (newcomer.step, frame) {
            (Step::Survey, FromAgent::Surveyed(survey)) => {
                let all = run.threads() + self.shares[index].threads;
                let host = self.surveyed(index, newcomer.name.clone(), *survey, all.into());
                if let Some(why) = joining.newcomers.lacks(&host) {
                    return Err(why);
                }
                let part = part_of_newcomer(plan, run.threads(), host.threads.0, joining.joined);
                self.send_newcomer(index, &ToAgent::Prepare(Box::new(part)))?;
                newcomer.await_step(Step::Preparation);
            }
            (Step::Preparation, FromAgent::Load(LoadEvent::Ready { .. })) => {
                self.start_newcomer(newcomer, run)?;
            }
            (Step::Start { first }, FromAgent::Armed { margin }) => {
                // Another one may have become due meanwhile, where the way is long.
                if margin == Nanos::ZERO {
                    self.start_newcomer(newcomer, run)?;
                    return Ok(None);
                }
                if run.next_second(now()).is_none() {
                    return Err(OVER.to_owned());
                }
                self.send_newcomer(index, &ToAgent::Go)?;
                self.note_clock(index, |share, _| share.note_margin(margin));
                let threads = self.shares[index].threads;
                let (name, begin) = (self.agents.name(index).to_owned(), run.threads());
                let shard = Shard { index: begin, of: begin + threads };
                run.join(Member { name, shard, threads }, first, now());
                return Ok(Some((threads, first)));
            }
            (_, FromAgent::Failed { message, .. }) => return Err(message),
            (_, FromAgent::Note(line)) => {
                let note = format!("{}: {line}", self.agents.name(index));
                self.agents.notes.push(note);
            }
            (_, other) => return Err(format!("it sent an unexpected message ({})", other.kind())),
        }
        Ok(None)
    }

    /// Sends a newcomer the second of the load with which it starts.
    fn start_newcomer(&mut self, newcomer: &mut Newcomer, run: &LoadRun) -> Result<(), String> {
        let ahead = START_AHEAD + Nanos(self.agents.longest_round_trip().0 * ROUND_TRIPS_AHEAD);
        let (first, epoch_monotonic) =
            run.next_second(now() + ahead).ok_or_else(|| OVER.to_owned())?;
        self.note_clock(newcomer.index, Share::note_start);
        self.send_newcomer(newcomer.index, &ToAgent::Start { epoch_monotonic })?;
        newcomer.await_step(Step::Start { first });
        Ok(())
    }

    fn send_newcomer(&self, index: usize, command: &ToAgent) -> Result<(), String> {
        self.agents.send(index, command).map_err(|error| error.to_string())
    }

    fn refuse_newcomer(&mut self, index: usize, why: &str, run: &LoadRun) {
        let note = format!("{} does not join: {why}", self.agents.name(index));
        self.agents.notes.push(note);
        self.forget_newcomer(run);
    }

    /// Ends the agents that take no part.
    fn forget_newcomer(&mut self, run: &LoadRun) {
        self.agents.discard(run.agents());
        self.shares.truncate(run.agents());
    }
}

impl Newcomer {
    fn await_step(&mut self, step: Step) {
        self.step = step;
        self.deadline = Instant::now() + STEP_WAIT;
    }
}

/// Returns the part of a host with `threads` threads that joins after `before` threads and `joined` other newcomers.
/// The numbers that distinguish connections, such as those in client identifiers, continue after the numbers of all
/// others, which use less than one for each connection and two for each thread.
fn part_of_newcomer(plan: &LoadPlan, before: u32, threads: u32, joined: u32) -> LoadPlan {
    let of = before + threads;
    let numbers = plan.connections.saturating_add(2 * u64::from(of));
    let numbers_from = numbers.saturating_mul(u64::from(joined) + 1);
    let part = LoadPart {
        shard: Shard { index: before, of },
        on_host: Some(before..of),
        numbers_from: u32::try_from(numbers_from).unwrap_or(u32::MAX),
    };
    LoadPlan { part, threads, ..plan.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::load_run::tests::plan;

    #[test]
    fn numbers_of_newcomers_are_nobody_elses() {
        let whole = LoadPlan { connections: 1_000, ..plan() };
        // Four threads, then hosts of 3, 1 and 4.
        let (mut before, mut below) = (4_u32, 1_000 + 2 * 4);
        for (joined, threads) in [3, 1, 4].into_iter().enumerate() {
            let part = part_of_newcomer(&whole, before, threads, joined as u32);
            assert!(part.part.numbers_from >= below, "{} {below}", part.part.numbers_from);
            before += threads;
            assert_eq!(
                (part.part.shard.of, part.part.on_host),
                (before, Some(before - threads..before))
            );
            // A thread has the numbers of its slots, in steps of all threads.
            let slots = u32::try_from(part.part.shard.share(1_000)).expect("few") + 1;
            below = part.part.numbers_from + slots * before;
        }
    }
}
