//! Random timelines: views of every shape and policy, kept by the engine and by the model, agree after every step.
//!
//! A failure prints its seed and the smallest script found that still fails. `WEIR_FUZZ_SECONDS` (600) and
//! `WEIR_FUZZ_SEED` (the time) are for the long run: `cargo test --test all -- --ignored --nocapture retention`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::beside::{self, Defined, Failure, Timeline};
use super::model::{Policy, World};
use super::plans::{Shape, View};
use super::settings::{Settings, Ttl};
use super::tables::{Crowd, Event, Table, Tables};

const VIEWS: usize = 3;
const EVENTS: usize = 16;
/// How long to look for a smaller script.
const PATIENCE: Duration = Duration::from_secs(40);
/// The long run stops at so many failures.
const ENOUGH: usize = 6;

impl Defined {
    fn random(rng: &mut StdRng, number: usize, kind: usize) -> Self {
        let view = |rng: &mut StdRng, shape: Shape| View { settings: Settings::random(rng, shape.operators()), shape };
        if kind >= Shape::OVER_TABLES {
            let (bases, shape) = Shape::random_over_views(rng);
            let bases = bases.into_iter().map(|base| view(rng, base)).collect();
            let mut defined = Defined { number, bases, view: view(rng, shape), watches_bases: rng.random_bool(0.7) };
            if rng.random_bool(0.4) {
                defined.view.settings = Settings::none();
            }
            return defined;
        }
        let shape = Shape::random(rng, kind);
        Defined { number, view: view(rng, shape), bases: vec![], watches_bases: false }
    }

    /// The same view under another policy, with which it shares what it can.
    fn under(mut self, policy: Policy) -> Self {
        for view in self.bases.iter_mut().chain([&mut self.view]) {
            view.settings.policy = policy;
            view.settings.sides.iter_mut().for_each(|side| side.policy = None);
        }
        self
    }

    /// With ttls that no other view has, so that it shares nothing that has forgotten something.
    fn apart(mut self) -> Self {
        for view in self.bases.iter_mut().chain([&mut self.view]) {
            view.settings = view.settings.clone().longer_by(100 * (1 + self.number as i64));
        }
        self
    }
}

impl Timeline {
    /// A timeline whose views are of kinds in turn, so that few seeds see all of them.
    pub fn random(seed: u64) -> Self {
        Self::with_events(seed, EVENTS)
    }

    /// A timeline of which many steps come in one batch.
    pub fn in_bursts(seed: u64) -> Self {
        let timeline = Self::with_events(seed, EVENTS + EVENTS / 2);
        Timeline { stretch: [2, 3, 6, usize::MAX][seed as usize / 2 % 4], ..timeline }
    }

    /// A timeline, perhaps of which many steps come in one batch, whose engine is lost now and then.
    pub fn with_losses(seed: u64) -> Self {
        let timeline = if seed.is_multiple_of(3) { Self::in_bursts(seed) } else { Self::random(seed) };
        Timeline { losses: Some(seed), ..timeline }
    }

    fn with_events(seed: u64, count: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let kinds = Shape::OVER_TABLES + 3;
        let mut views: Vec<Defined> = vec![];
        let (mut made, mut dropped) = (vec![], vec![]);
        for number in 0..VIEWS {
            let mut view = match views.last() {
                Some(last) if made.is_empty() && rng.random_bool(0.15) => {
                    let policy = [Policy::Forget, Policy::Keep, Policy::Retract][rng.random_range(0..3)];
                    Defined { number, ..last.clone() }.under(policy)
                }
                _ => Defined::random(&mut rng, number, (seed as usize * VIEWS + number) % kinds),
            };
            if number > 0 && rng.random_bool(0.2) {
                view = view.apart();
                made.push((rng.random_range(1..count), Event::Define(number)));
            } else if rng.random_bool(0.1) {
                dropped.push((rng.random_range(1..count), Event::Drop(number)));
            }
            views.push(view);
        }
        let crowd = if rng.random_bool(0.25) { Crowd::Many } else { Crowd::Few };
        let mut timeline = Timeline { views, events: vec![], stretch: 1, losses: None };
        let (of, mut tables) = (timeline.tables(), Tables::default());
        while timeline.events.len() < count {
            let event = Event::random(&mut rng, &of, crowd, &tables);
            beside::make_in_model(&mut World::default(), &mut tables, &event);
            timeline.events.push(event);
        }
        made.into_iter().chain(dropped).for_each(|(at, event)| timeline.events.insert(at, event));
        timeline
    }

    /// The timeline with the retention of all its views replaced.
    fn with(&self, settings: Settings) -> Self {
        let mut timeline = self.clone();
        for defined in &mut timeline.views {
            defined.view.settings = settings.clone();
            defined.bases.iter_mut().for_each(|base| base.settings = settings.clone());
        }
        timeline
    }

    /// The timeline as a script.
    fn script(&self) -> String {
        let lines = |statements: Vec<String>| statements.into_iter().map(|statement| format!("  {statement};")).collect::<Vec<_>>();
        let mut script = lines(self.definitions());
        for (i, event) in self.events.iter().enumerate() {
            script.push(event.to_string());
            if let Event::Define(number) = event {
                script.extend(lines(self.view(*number).map(Defined::statements).unwrap_or_default()));
            }
            if self.stretch > 1 && (i + 1) % self.stretch == 0 {
                script.push("  -- all of these at once".into());
            }
        }
        script.join("\n")
    }

    /// Without the statements on tables that no view reads.
    fn tidied(mut self) -> Self {
        let tables: Vec<Table> = self.tables();
        for event in &mut self.events {
            if let Event::Change(statements) = event {
                statements.retain(|statement| tables.contains(&statement.table()));
            }
        }
        self.events.retain(|event| match event {
            Event::Change(statements) => !statements.is_empty(),
            Event::Define(number) | Event::Drop(number) => self.views.iter().any(|view| view.number == *number),
            Event::Advance(_) => true,
        });
        self
    }
}

/// Runs a timeline; a panic of the model or the engine is a failure like any other.
fn run(timeline: &Timeline, workers: usize) -> Option<Failure> {
    let ran = catch_unwind(AssertUnwindSafe(|| beside::run(timeline, workers)));
    let panicked = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
        Failure { view: None, event: None, message: format!("panic: {}", text.unwrap_or_default()) }
    };
    ran.unwrap_or_else(|panic| Err(panicked(panic))).err()
}

/// The failure with the smallest script found, as text.
fn reproducer(name: &str, timeline: &Timeline, workers: usize, failure: &Failure) -> String {
    let (mut best, mut message) = (timeline.clone(), failure.message.clone());
    let start = Instant::now();
    let mut keep_if_it_fails = |best: &mut Timeline, candidate: Timeline| {
        let failure = (start.elapsed() < PATIENCE).then(|| run(&candidate, workers)).flatten();
        let fails = failure.is_some();
        if let Some(failure) = failure {
            (*best, message) = (candidate, failure.message);
        }
        fails
    };
    if let Some(event) = failure.event {
        let mut prefix = best.clone();
        prefix.events.truncate(event + 1);
        keep_if_it_fails(&mut best, prefix);
    }
    if let Some(view) = failure.view {
        let alone = Timeline { views: best.view(view).into_iter().cloned().collect(), ..best.clone() };
        keep_if_it_fails(&mut best, alone.tidied());
    }
    if best.stretch > 1 {
        let step_by_step = Timeline { stretch: 1, ..best.clone() };
        keep_if_it_fails(&mut best, step_by_step);
    }
    for smaller in [without_view, without_event, without_statement, without_row] {
        let mut at = 0;
        while let Some(candidate) = smaller(&best, at) {
            if !keep_if_it_fails(&mut best, candidate) {
                at += 1;
            }
        }
    }
    format!("{name}, {workers} worker(s)\n{}\n  => {message}", best.script())
}

fn without_view(timeline: &Timeline, at: usize) -> Option<Timeline> {
    let mut timeline = timeline.clone();
    (timeline.views.len() > 1 && at < timeline.views.len()).then(|| drop(timeline.views.remove(at)))?;
    Some(timeline.tidied())
}

fn without_event(timeline: &Timeline, at: usize) -> Option<Timeline> {
    let mut timeline = timeline.clone();
    (at < timeline.events.len()).then(|| drop(timeline.events.remove(at)))?;
    Some(timeline)
}

fn without_statement(timeline: &Timeline, at: usize) -> Option<Timeline> {
    let mut timeline = timeline.clone();
    let several = timeline.events.iter_mut().filter_map(|event| match event {
        Event::Change(statements) if statements.len() > 1 => Some(statements),
        _ => None,
    });
    let mut before = 0;
    for statements in several {
        if at < before + statements.len() {
            statements.remove(at - before);
            return Some(timeline);
        }
        before += statements.len();
    }
    None
}

fn without_row(timeline: &Timeline, at: usize) -> Option<Timeline> {
    let mut timeline = timeline.clone();
    let mut left = at;
    for event in &mut timeline.events {
        let Event::Change(statements) = event else { continue };
        for statement in statements {
            if let Some(smaller) = statement.without_row(left) {
                *statement = smaller;
                return Some(timeline);
            }
            left -= (0..).take_while(|at| statement.without_row(*at).is_some()).count();
        }
    }
    None
}

/// The failures of some seeds, at most [`ENOUGH`].
fn failures(seeds: impl Iterator<Item = u64>, make: impl Fn(u64) -> Timeline) -> Vec<String> {
    let failing = seeds.filter_map(|seed| {
        let (timeline, workers) = (make(seed), 1 + (seed % 2) as usize);
        let failure = run(&timeline, workers)?;
        Some(reproducer(&format!("seed {seed}"), &timeline, workers, &failure))
    });
    failing.take(ENOUGH).collect()
}

fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "{} failure(s):\n\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn views_without_retention_are_what_the_model_says() {
    assert_none(&failures(1..=15, |seed| Timeline::random(seed).with(Settings::none())));
}

#[test]
fn random_timelines_are_what_the_model_says_on_one_worker() {
    assert_none(&failures((1..=30).filter(|seed| seed % 2 == 0), Timeline::random));
}

#[test]
fn random_timelines_are_what_the_model_says_on_two_workers() {
    assert_none(&failures((1..=30).filter(|seed| seed % 2 == 1), Timeline::random));
}

#[test]
fn timelines_in_bursts_are_what_the_model_says_on_one_worker() {
    assert_none(&failures((1..=60).filter(|seed| seed % 2 == 0), Timeline::in_bursts));
}

#[test]
fn timelines_in_bursts_are_what_the_model_says_on_two_workers() {
    assert_none(&failures((1..=60).filter(|seed| seed % 2 == 1), Timeline::in_bursts));
}

#[test]
fn timelines_whose_engine_is_lost_are_what_the_model_says_on_any_number_of_workers() {
    assert_none(&failures(200..=240, Timeline::with_losses));
}

#[test]
fn a_ttl_that_is_never_or_longer_than_the_timeline_changes_no_byte() {
    let long = Ttl::Of(1_000_000_000);
    for seed in 100..106 {
        let (timeline, workers) = (Timeline::random(seed), 1 + (seed % 2) as usize);
        let told =
            |settings: Settings| beside::changelogs(&timeline.with(settings), workers).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
        let plain = told(Settings::none());
        let policies = [Policy::Forget, Policy::Keep, Policy::Retract];
        let others = [Ttl::Never, long].into_iter().flat_map(|ttl| policies.map(|policy| Settings::of(ttl, policy)));
        for settings in others {
            let options = settings.options();
            assert_eq!(told(settings), plain, "seed {seed}, {workers} worker(s),{options}\n{}", timeline.script());
        }
    }
}

/// Ignored because it runs for ten minutes by design; the tests of thirty timelines are its short form.
#[test]
#[ignore = "runs for WEIR_FUZZ_SECONDS (600)"]
fn random_timelines_of_retention_are_what_the_model_says_for_as_long_as_you_like() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(number("WEIR_FUZZ_SECONDS").unwrap_or(600));
    let first =
        number("WEIR_FUZZ_SEED").unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() * 1000));
    println!("from seed {first} for {} s", time.as_secs());
    let (start, mut tried, mut found) = (Instant::now(), 0, vec![]);
    for seed in (first..).take_while(|_| start.elapsed() < time) {
        tried += 1;
        let make = [Timeline::random, Timeline::in_bursts, Timeline::with_losses, Timeline::with_losses][seed as usize / 2 % 4];
        let new = failures(std::iter::once(seed), make);
        new.iter().for_each(|failure| println!("{failure}\n"));
        found.extend(new);
        if found.len() >= ENOUGH {
            break;
        }
    }
    println!("{tried} timelines, {} failures", found.len());
    assert!(found.is_empty(), "{} failures, printed above", found.len());
}

/// The test of the test: on most timelines something is forgotten, and the policies are told apart by it.
#[test]
fn the_policies_differ_on_most_timelines_and_late_retractions_happen() {
    let (mut differ, mut late, mut owed) = (0, 0, 0);
    let seeds = 1..=60;
    for seed in seeds.clone() {
        let timeline = Timeline::random(seed);
        let told = |policy: Policy| {
            let mut timeline = timeline.clone();
            timeline.views.iter_mut().for_each(|defined| *defined = defined.clone().under(policy));
            let mut world = World::default();
            timeline.first_views().for_each(|defined| drop(defined.add_to(&mut world)));
            world.settle();
            let mut tables = Tables::default();
            timeline.events.iter().for_each(|event| drop(beside::make_in_model(&mut world, &mut tables, event)));
            world
        };
        let (forget, retract) = (told(Policy::Forget), told(Policy::Retract));
        differ += usize::from(forget.log != retract.log);
        late += usize::from(forget.nodes.iter().flat_map(|node| &node.inputs).any(|input| input.late > 0));
        owed += usize::from(forget.nodes.iter().any(|node| node.absorbed > 0));
    }
    let of = seeds.count();
    println!("of {of} timelines {differ} differ by policy, {late} have late retractions, {owed} took back what was owed");
    assert!(differ * 4 > of * 3 && late * 2 > of && owed * 8 > of, "{differ}, {late}, {owed} of {of}");
}

#[test]
fn every_part_of_a_timeline_can_be_removed() {
    let timelines: Vec<Timeline> = (1..=5).map(Timeline::random).collect();
    let count = |remove: fn(&Timeline, usize) -> Option<Timeline>| -> usize {
        timelines.iter().map(|timeline| (0..).take_while(|at| remove(timeline, *at).is_some()).count()).sum()
    };
    assert_eq!(count(without_view), 5 * VIEWS);
    assert_eq!(count(without_event), timelines.iter().map(|timeline| timeline.events.len()).sum::<usize>());
    assert!(count(without_statement) > 0 && count(without_row) > 0);
}
