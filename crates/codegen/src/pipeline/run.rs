//! Running phases over functions: which run, in which order, what is checked between them and what observers are told.

use super::{Context, Failure, PHASES, Phase, PhaseError, Run, Skip};
use crate::mercury::{self, Mercury};
use crate::stopwatch::Stopwatch;
use orias_ori::{Function, Level, verify_function};
use std::fmt;
use std::time::Duration;
/// What happens to a function on its way.
#[derive(Debug)]
pub enum Event<'a> {
    /// A phase is about to run.
    Before(&'a Phase, &'a Function),
    /// A phase has run, in so much time.
    After(&'a Phase, &'a Function, Duration),
    /// A phase on Mercury is about to run.
    BeforeMercury(&'a Phase, &'a Mercury),
    /// A phase has left Mercury behind, in so much time.
    AfterMercury(&'a Phase, &'a Mercury, Duration),
    /// A phase was passed over.
    Skipped(&'a Phase, Skip),
}

/// Asked before each phase, by several threads at once where there are several functions, whether to leave the rest undone.
#[derive(Clone, Copy)]
pub struct Stop<'a>(pub &'a (dyn Fn() -> bool + Sync));

impl Stop<'_> {
    /// Goes on to the end.
    pub const NEVER: Stop<'static> = Stop(&|| false);
}

impl fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop")
    }
}

/// A way through the table.
#[derive(Clone, Debug)]
pub struct Pipeline<'a> {
    /// The table.
    pub phases: &'a [Phase],
    /// The first row to run.
    pub first: usize,
    /// One past the last row to run.
    pub end: usize,
    /// Rows to pass over.
    pub disabled: Vec<usize>,
    /// Whether the verifier looks at the function before the first phase and after each.
    pub verify_each: bool,
    /// Whether to end early.
    pub stop: Stop<'a>,
}

impl Default for Pipeline<'_> {
    fn default() -> Self {
        Self::new(PHASES)
    }
}

impl<'a> Pipeline<'a> {
    /// All of `phases`.
    pub fn new(phases: &'a [Phase]) -> Self {
        Self {
            phases,
            first: 0,
            end: phases.len(),
            disabled: Vec::new(),
            verify_each: false,
            stop: Stop::NEVER,
        }
    }

    /// Takes `function` through the phases, telling `watch` what happens.
    pub fn run(
        &self,
        function: &mut Function,
        context: &Context<'_>,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Failure> {
        self.run_to_mercury(function, context, watch).map(drop)
    }

    /// The same; what comes back is the function's Mercury form, if it came so far.
    pub fn run_to_mercury(
        &self,
        function: &mut Function,
        context: &Context<'_>,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<Mercury>, Failure> {
        if self.verify_each {
            verify(function, "the input")?;
        }
        let mut mercury = None;
        for (index, phase) in self.chosen() {
            let skip = self
                .skip(index, Some(function.level), context)
                .or_else(|| phase.run.misses(mercury.is_some()));
            if let Some(skip) = skip {
                watch(Event::Skipped(phase, skip));
                continue;
            }
            if (self.stop.0)() {
                return Err(Failure::Stopped { before: phase.name });
            }
            let failed = |error| failed(phase, error);
            match (phase.run, &mut mercury) {
                (Run::Ori(run), _) => {
                    watch(Event::Before(phase, function));
                    let start = Stopwatch::start();
                    run(function, context).map_err(failed)?;
                    watch(Event::After(phase, function, start.elapsed()));
                    if self.verify_each {
                        verify(function, phase.name)?;
                    }
                }
                (Run::Convert(run), _) => {
                    watch(Event::Before(phase, function));
                    let start = Stopwatch::start();
                    let made = run(function, context).map_err(failed)?;
                    watch(Event::AfterMercury(phase, &made, start.elapsed()));
                    mercury = Some(made);
                }
                (Run::Mercury(run), Some(mercury)) => {
                    run_on(phase, run, mercury, context, watch)?;
                }
                (Run::Mercury(_), None) => {}
            }
        }
        Ok(mercury)
    }

    /// Takes a stream through the phases that work on Mercury.
    pub fn run_mercury(
        &self,
        mercury: &mut Mercury,
        context: &Context<'_>,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Failure> {
        for (index, phase) in self.chosen() {
            let skip = self.skip(index, None, context);
            match (phase.run, skip) {
                (Run::Mercury(run), None) => run_on(phase, run, mercury, context, watch)?,
                // The converter's second half works on streams, too.
                (Run::Convert(_), None) => {
                    run_on(phase, mercury::reorganize, mercury, context, watch)?;
                }
                (_, skip) => watch(Event::Skipped(phase, skip.unwrap_or(Skip::Form))),
            }
        }
        Ok(())
    }

    /// The rows to run, with their numbers.
    fn chosen(&self) -> impl Iterator<Item = (usize, &'a Phase)> + use<'a> {
        let rows = self.phases.iter().enumerate();
        rows.take(self.end).skip(self.first)
    }

    fn skip(&self, index: usize, level: Option<Level>, context: &Context<'_>) -> Option<Skip> {
        let phase = &self.phases[index];
        if self.disabled.contains(&index) {
            return Some(Skip::Disabled);
        }
        if let Some(level) = level
            && !phase.levels.contains(&level)
        {
            return Some(Skip::Level(level));
        }
        phase.gate.closed(context)
    }
}

impl Run {
    /// Why the phase cannot run on a function that was, or was not, converted.
    fn misses(self, converted: bool) -> Option<Skip> {
        let fits = matches!(self, Run::Mercury(_)) == converted;
        (!fits).then_some(Skip::Form)
    }
}

fn failed(phase: &Phase, error: PhaseError) -> Failure {
    Failure::Phase {
        phase: phase.name,
        error,
    }
}

fn run_on(
    phase: &Phase,
    run: fn(&mut Mercury, &Context<'_>) -> Result<(), PhaseError>,
    mercury: &mut Mercury,
    context: &Context<'_>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<(), Failure> {
    watch(Event::BeforeMercury(phase, mercury));
    let start = Stopwatch::start();
    run(mercury, context).map_err(|error| failed(phase, error))?;
    watch(Event::AfterMercury(phase, mercury, start.elapsed()));
    Ok(())
}

fn verify(function: &Function, after: &'static str) -> Result<(), Failure> {
    verify_function(function).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::Invalid {
            after,
            errors: lines.join("; "),
        }
    })
}
