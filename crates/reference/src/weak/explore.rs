//! Runs of a launch with weak memory: one, or all that there are.

use super::choices::Search;
use super::{Choices, DeadEnd, Weak};
use crate::error::{Fault, Race};
use crate::launch::{Consistency, Launch, Outcome};
use crate::memory::Memory;
use crate::model::Model;
use crate::program::Program;
use orias_random::Rng;

/// Runs that may come to a dead end before one at random is given up.
const ATTEMPTS: u64 = 1000;

/// How far an exploration goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exploring {
    /// Runs at most.
    pub runs: u64,
    /// Steps of a run at most. One that takes more, as it spins on a value that does not change, counts as cut off.
    pub steps: u64,
}

impl Default for Exploring {
    fn default() -> Self {
        Self {
            runs: 1_000_000,
            steps: 10_000,
        }
    }
}

/// What an exploration saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exploration {
    /// Executions that came to their end.
    pub executions: u64,
    /// Runs that took too many steps.
    pub cut: u64,
    /// Whether there are no others.
    pub complete: bool,
    /// Data races of any execution, each pair of places in the program once.
    pub races: Vec<Race>,
}

impl Program {
    /// Runs a launch with weak memory, at random.
    pub(crate) fn run_weak(
        &mut self,
        launch: &Launch,
        outcome: &mut Outcome,
        progress: &mut dyn FnMut(u64, u64),
        seed: u64,
    ) -> Result<(), Fault> {
        let before = self.memory().clone();
        let mut random = Rng::new(seed);
        let mut attempts = 0;
        loop {
            let choices = Choices::Drawn(Rng::new(random.next_u64()));
            let mut model = Model::Weak(Box::new(Weak::new(choices)));
            *outcome = Outcome::default();
            let ran = self.run(launch, outcome, progress, &mut model);
            attempts += 1;
            match &model {
                Model::Weak(weak) if weak.dead_end.is_some() && attempts < ATTEMPTS => {
                    *self.memory_mut() = before.clone();
                }
                _ => break ran,
            }
        }
    }

    /// Runs a launch in every way that the memory model allows. `seen` is told what memory holds after each; then memory is as it was before.
    ///
    /// # Errors
    /// The launch does not fit the kernel, or a thread does something that it must not, in one of the executions.
    pub fn explore(
        &mut self,
        launch: &Launch,
        exploring: Exploring,
        seen: &mut dyn FnMut(&Memory),
    ) -> Result<Exploration, Fault> {
        let before = self.memory().clone();
        let launch = Launch {
            consistency: Consistency::Weak(0),
            step_limit: Some(launch.step_limit.unwrap_or(exploring.steps)),
            ..launch.clone()
        };
        let mut exploration = Exploration::default();
        let mut search = Search::default();
        for _ in 0..exploring.runs {
            let choices = Choices::Searched(std::mem::take(&mut search));
            let mut model = Model::Weak(Box::new(Weak::new(choices)));
            let mut outcome = Outcome::default();
            let ran = self.run(&launch, &mut outcome, &mut |_, _| {}, &mut model);
            let Model::Weak(weak) = model else {
                return Ok(exploration);
            };
            let cut = matches!(
                &ran,
                Err(fault) if matches!(fault.kind, crate::FaultKind::StepLimit(_))
            );
            match weak.dead_end {
                Some(DeadEnd::Forbidden | DeadEnd::Known) => {}
                None if cut => exploration.cut += 1,
                None => {
                    ran?;
                    exploration.executions += 1;
                    seen(self.memory());
                    for race in outcome.races {
                        let places = |it: &Race| {
                            let (a, b) = (it.first.line, it.second.line);
                            (a.min(b), a.max(b))
                        };
                        let mut known = exploration.races.iter();
                        if !known.any(|it| places(it) == places(&race)) {
                            exploration.races.push(race);
                        }
                    }
                }
            }
            *self.memory_mut() = before.clone();
            if let Choices::Searched(it) = weak.choices {
                search = it;
            }
            if !search.advance() {
                exploration.complete = true;
                break;
            }
        }
        Ok(exploration)
    }
}
