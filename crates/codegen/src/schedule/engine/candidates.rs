//! Who goes next: candidates, whether they keep the register budget, and their priorities.

use super::super::batch::{self, Slot};
use super::super::graph::Graph;
use super::super::priority::{Candidate, Factors, Mode};
use super::super::units::Pipe;
use super::Engine;
use orias_ori::Class;
use orias_sass::Op;

impl Engine<'_> {
    pub(super) fn pick(&mut self) -> Option<usize> {
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.clear();
        let few = self.settings.look_ahead.max(1);
        let best = if self.settings.mode == Mode::ReduceReg {
            nodes.extend(self.relief.nodes(few));
            self.best(&nodes)
        } else {
            if self.settings.mode == Mode::DynBatch && self.countdown == 0 {
                self.gather();
            }
            let few = few * 2;
            nodes.extend(self.available.nodes(few));
            self.best(&nodes)
                .or_else(|| {
                    // Nothing can issue now, or nothing that has room: whoever comes first, or makes room.
                    nodes.clear();
                    nodes.extend(self.waiting.nodes(few));
                    nodes.extend(self.relief.nodes(few));
                    nodes.sort_unstable();
                    nodes.dedup();
                    self.best(&nodes)
                })
                .or_else(|| self.next_of_reference())
        };
        self.nodes = nodes;
        best
    }

    /// The best of `nodes` that fits.
    fn best(&mut self, nodes: &[u32]) -> Option<usize> {
        if let [] | [_] = nodes {
            let only = *nodes.first()? as usize;
            return self.fits(only).then_some(only);
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let mut best = 0;
        for (index, &node) in nodes.iter().enumerate() {
            let candidate = self.candidate(node as usize);
            if index > 0 && candidate.is_before(&candidates[best]) {
                best = index;
            }
            candidates.push(candidate);
        }
        let mut found = None;
        while !candidates.is_empty() {
            let node = candidates.swap_remove(best).node as usize;
            if self.fits(node) {
                found = Some(node);
                break;
            }
            best = (1..candidates.len()).fold(0, |best, index| {
                match candidates[index].is_before(&candidates[best]) {
                    true => index,
                    false => best,
                }
            });
        }
        self.candidates = candidates;
        found
    }

    /// The first of the reference that is ready: all before it have gone, so it is the first, or of a run that has begun.
    fn next_of_reference(&mut self) -> Option<usize> {
        self.skip_gone();
        let mut rest = self.reference[self.front..].iter();
        let first = rest.find(|&&node| self.key[node as usize].is_some());
        first.map(|&node| node as usize)
    }

    /// Goes on in the reference to the first that has not gone.
    pub(super) fn skip_gone(&mut self) {
        while self
            .reference
            .get(self.front)
            .is_some_and(|&node| self.gone[node as usize])
        {
            self.front += 1;
        }
    }

    /// Whether every limit is kept if it goes now, now and later.
    fn fits(&self, node: usize) -> bool {
        let Some(forecast) = &self.forecast else {
            return true;
        };
        let limits = &self.settings.limits;
        let during = self.pressure.during(node);
        let grows = self.pressure.growth(node);
        // As a rule there is room everywhere.
        let most = forecast.most();
        if (0..4).all(|lane| during[lane].max(most[lane] + grows[lane]) <= limits[lane]) {
            self.takes(during[0].max(most[0] + grows[0]));
            return true;
        }
        let before = forecast.before(node);
        let fits = (0..4).all(|lane| {
            during[lane].max(before[lane] + grows[lane]) <= limits[lane] || grows[lane] < 0
        });
        let general = during[0].max(before[0] + grows[0]);
        if fits {
            // What ends values may go whatever there is.
            if grows[0] >= 0 {
                self.takes(general);
            }
        } else if (1..4).all(|lane| {
            during[lane].max(before[lane] + grows[lane]) <= limits[lane] || grows[lane] < 0
        }) {
            self.most.set(self.most.get().min(general - 1));
        }
        fits
    }

    /// Notes that something is decided as it is because there are so many general registers.
    fn takes(&self, registers: i32) {
        self.enough.set(self.enough.get().max(registers));
    }

    #[inline]
    fn candidate(&self, node: usize) -> Candidate {
        let stall = self.issue_at(node) - self.clock.next;
        // Each mode for itself, so that what it does not look at is not computed.
        let changing = match self.settings.mode {
            Mode::ReduceReg => self.priority(Mode::ReduceReg, node, stall),
            Mode::Ilp => self.priority(Mode::Ilp, node, stall),
            Mode::DynBatch => self.priority(Mode::DynBatch, node, stall),
        };
        let fixed = &self.fixed[node];
        Candidate {
            node: node as u32,
            priority: fixed.priority | changing,
            stall_free: stall == 0,
            deadline: if self.settings.furthest {
                u32::MAX - self.timeline.height[node]
            } else {
                fixed.latest
            },
        }
    }

    /// The factors of a priority that change.
    #[inline(always)]
    fn priority(&self, mode: Mode, node: usize, stall: u32) -> u64 {
        let fixed = &self.fixed[node];
        let byte = |value: u32| value.min(255) as u8;
        let grows = self.pressure.grows(node, Class::R);
        let limit = self.settings.limits[Class::R as usize];
        let over = self.pressure.at(node, Class::R) - (limit - self.settings.slack);
        let pressure = if grows <= 0 {
            255
        } else if over <= 0 {
            self.takes(over + limit);
            255
        } else {
            self.takes(limit);
            self.most.set(self.most.get().min(limit));
            255 - byte(1 + over as u32 * 4)
        };
        let late = fixed.latest <= self.clock.next;
        let critical = self.spill_mode > 0 || fixed.may_be_critical && late;
        let factors = Factors {
            frees: (128 - grows).clamp(0, 255) as u8,
            pressure,
            critical: if critical { 255 } else { 0 },
            stall: 255 - byte(stall),
            contention: self.idle[fixed.pipe as usize],
            recency: match mode {
                Mode::ReduceReg => {
                    byte(self.recency[node] * 255 / (self.order.len() as u32).max(1))
                }
                _ => 0,
            },
            batch: match mode {
                Mode::DynBatch => self.batch_byte(node, pressure == 255),
                _ => 0,
            },
            ..Factors::default()
        };
        factors.pack(mode)
    }

    fn batch_byte(&self, node: usize, pressure_ok: bool) -> u8 {
        let own = &self.graph.nodes[node];
        let tensor = own.pipe == Pipe::Tensor;
        let free = tensor && self.clock.units.free_at(own.issue.unit) <= self.clock.next;
        let commits = commits(self.graph, node);
        let depth = self.timeline.earliest[node];
        // Before the batch is over, neither a commit nor a hint goes ahead of it.
        let held = self.countdown > 0;
        let hint = self.settings.matrix_first && tensor && !held;
        let depth_ok = self.batch.depth_limit.is_none_or(|limit| depth <= limit);
        u8::from(free) << 7
            | u8::from(commits && !held) << 6
            | u8::from(commits && !held) << 5
            | u8::from(hint) << 4
            | u8::from(pressure_ok) << 3
            | u8::from(self.in_batch[node]) << 2
            | u8::from(depth_ok) << 1
            | u8::from(own.is_long())
    }

    /// Starts the next batch.
    fn gather(&mut self) {
        let few = (self.settings.batch as usize).max(1) * 4;
        let ready = self.available.nodes(few * 4);
        let mut nodes: Vec<u32> = ready
            .chain(self.waiting.nodes(few))
            .filter(|&node| is_batchable(self.graph, node as usize))
            .collect();
        nodes.sort_by_key(|&node| (self.timeline.latest[node as usize], node));
        let slots: Vec<Slot> = nodes
            .iter()
            .map(|&node| Slot {
                node,
                grows: self.pressure.grows(node as usize, Class::R),
                depth: self.timeline.earliest[node as usize],
                commits: commits(self.graph, node as usize),
            })
            .collect();
        let textures = nodes
            .iter()
            .filter(|&&node| self.graph.nodes[node as usize].pipe == Pipe::Texture)
            .count() as u32;
        let weight = self.settings.loads_per_texture.max(1);
        let most = self.settings.batch + textures * (weight - 1) / weight;
        let target = batch::target(self.batchable.min(slots.len() as u32), most);
        let live = self.pressure.live[Class::R as usize];
        let budget = self.settings.limits[Class::R as usize];
        self.batch = batch::gather(&slots, target, live, budget);
        for &node in &self.batch.members {
            self.in_batch[node as usize] = true;
        }
        self.countdown = self.batch.members.len() as u32;
    }
}

/// Whether it belongs into batches: loads that take long, and matrix operations.
pub(super) fn is_batchable(graph: &Graph, node: usize) -> bool {
    let own = &graph.nodes[node];
    own.loads && own.is_long() && !own.is_fence() || own.pipe == Pipe::Tensor && !own.is_fence()
}

/// Whether it ends a warpgroup's group.
fn commits(graph: &Graph, node: usize) -> bool {
    let op = graph.nodes[node].op;
    op == Some(Op::WARPGROUP_DEPBAR) || op == Some(Op::WARPGROUP_WAIT)
}
