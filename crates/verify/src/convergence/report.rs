//! Faults in words.

use super::Solved;
use super::returns;
use super::state::{Cause, NONE, Region};
use super::walk::{Fault, Walk};
use crate::finding::{Check, Finding};
use crate::judge::{alone, text};
use crate::program::WORD;
use orias_sass::{Register, RegisterClass};
use std::collections::VecDeque;

/// How many blocks of a path are named.
const NAMED: usize = 6;

pub(super) struct Reporter<'a> {
    pub walk: &'a Walk<'a>,
    pub solved: &'a Solved,
    pub following: &'a [Vec<usize>],
}

impl Reporter<'_> {
    pub(super) fn findings(&self, faults: &[(usize, Fault)]) -> Vec<Finding> {
        (faults.iter())
            .map(|(index, fault)| self.finding(*index, fault))
            .collect()
    }

    fn finding(&self, index: usize, fault: &Fault) -> Finding {
        let program = self.walk.program;
        let barrier = |barrier: u8| Some(Register::new(RegisterClass::B, barrier));
        let named = |index: usize| format!("{:#06x} `{}`", index * WORD, text(program, index));
        let place = |index: usize| Some((index * WORD, text(program, index)));
        match fault {
            Fault::OpenedTwice { region } => Finding {
                register: barrier(region.barrier),
                earlier: self.opened(region).and_then(place),
                ..alone(
                    program,
                    Check::Reopened,
                    index,
                    "the barrier to be met or left before: lanes may wait at its BSYNC",
                    "it open".to_owned() + if region.closed { " on some path" } else { "" },
                )
            },
            Fault::NotOpen { barrier: b, region } => Finding {
                register: barrier(*b),
                earlier: (region.as_ref())
                    .and_then(|region| self.opened(region))
                    .and_then(place),
                ..alone(
                    program,
                    Check::Regions,
                    index,
                    "BSSY of the barrier on every path",
                    match region {
                        Some(_) => self.closed_way(index, *b),
                        None => "none on any".to_owned(),
                    },
                )
            },
            Fault::StillOpen { inner } => Finding {
                register: barrier(inner.barrier),
                earlier: self.opened(inner).and_then(place),
                ..alone(
                    program,
                    Check::Regions,
                    index,
                    if returns(program, index) {
                        "BSYNC or BREAK of what was opened, before lanes return"
                    } else {
                        "BSYNC or BREAK of what was opened inside, before lanes wait here"
                    },
                    "it open: lanes that wait there wait for these".to_owned(),
                )
            },
            Fault::Elsewhere { barrier: b } => Finding {
                register: barrier(*b),
                ..alone(
                    program,
                    Check::Regions,
                    index,
                    "the BSYNC that lanes come to in front of the place it names",
                    "another place".to_owned(),
                )
            },
            Fault::Idle { barrier: b, site } => Finding {
                register: barrier(*b),
                earlier: place(self.walk.acts.sites[*site as usize] as usize),
                ..alone(
                    program,
                    Check::Regions,
                    index,
                    "WARPSYNC in between, so that only the lanes of a mask exchange what they exchange there",
                    "nothing that parts lanes".to_owned(),
                )
            },
            Fault::Unpaired => alone(
                program,
                Check::Regions,
                index,
                "WARPSYNC.COLLECTIVE, what lanes do together and ENDCOLLECTIVE, one after the other",
                "one without the other".to_owned(),
            ),
            Fault::Apart { cause, yielded } => {
                let (parted, ways) = match *cause {
                    Cause::Branch(block) => {
                        let block = block as usize;
                        let ways = self.ways(*cause, &self.following[block], index);
                        (program.blocks[block].end - 1, ways)
                    }
                    Cause::Found(block) => {
                        let parted = program.blocks[block as usize].end - 1;
                        (
                            parted,
                            "the way it takes with lanes that are apart".to_owned(),
                        )
                    }
                    Cause::Masks(index) => (index as usize, "the way there".to_owned()),
                    Cause::Break(site) => {
                        let parted = self.walk.acts.sites[site as usize] as usize;
                        (parted, "the ways by BREAK and by BSYNC".to_owned())
                    }
                };
                let mut found = format!("none on {ways}");
                if *yielded != NONE {
                    found += &format!(
                        "; BSYNC does not wait for lanes at {}",
                        named(*yielded as usize)
                    );
                }
                let needed = if *yielded == NONE {
                    "the lanes that part there to meet, at a BSYNC whose BSSY comes before it or at a WARPSYNC"
                } else {
                    "the lanes that part there to meet at a WARPSYNC"
                };
                Finding {
                    earlier: place(parted),
                    ..alone(program, Check::Apart, index, needed, found)
                }
            }
        }
    }

    /// The first BSSY that may have opened a region.
    fn opened(&self, region: &Region) -> Option<usize> {
        let site = region.sites.first()?;
        Some(self.walk.acts.sites[*site as usize] as usize)
    }

    /// The ways from a branch's arms to an instruction on which its lanes do not meet.
    fn ways(&self, cause: Cause, arms: &[usize], index: usize) -> String {
        let apart = |block: usize| {
            (self.solved.before[block].as_ref())
                .is_some_and(|state| state.divergences.iter().any(|p| p.cause == cause))
        };
        let to = self.block_of(index);
        let ways: Vec<String> = (arms.iter())
            .filter_map(|&from| self.way(from, to, apart))
            .map(|way| self.named(&way))
            .collect();
        match &ways[..] {
            [] => "the way there".to_owned(),
            [way] => format!("the way {way}"),
            ways => format!("the ways {}", ways.join(" and ")),
        }
    }

    /// A way to an instruction on which a barrier is closed.
    fn closed_way(&self, index: usize, barrier: u8) -> String {
        let to = self.block_of(index);
        let closed = |block: usize| {
            (self.solved.before[block].as_ref())
                .is_some_and(|state| state.region(barrier).is_none_or(|region| region.closed))
        };
        let entered = (0..self.walk.program.blocks.len()).find(|&block| {
            let state = self.solved.before[block].as_ref();
            state.is_some_and(|state| state.region(barrier).is_none())
                && self.way(block, to, closed).is_some()
        });
        match entered.and_then(|from| self.way(from, to, closed)) {
            Some(way) => format!("none on the way {}", self.named(&way)),
            None => "none on some".to_owned(),
        }
    }

    fn block_of(&self, index: usize) -> usize {
        let blocks = &self.walk.program.blocks;
        blocks.partition_point(|block| block.end <= index)
    }

    /// The shortest way between two blocks through such as `pass` allows.
    fn way(&self, from: usize, to: usize, pass: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let mut before: Vec<Option<usize>> = vec![None; self.following.len()];
        before[from] = Some(from);
        let mut pending = VecDeque::from([from]);
        while let Some(block) = pending.pop_front() {
            if block == to {
                let mut way = vec![to];
                let mut at = to;
                while at != from {
                    at = before[at]?;
                    way.push(at);
                }
                way.reverse();
                return Some(way);
            }
            for &next in &self.following[block] {
                if before[next].is_none() && pass(next) {
                    before[next] = Some(block);
                    pending.push_back(next);
                }
            }
        }
        None
    }

    fn named(&self, way: &[usize]) -> String {
        let start =
            |block: &usize| format!("{:#06x}", self.walk.program.blocks[*block].start * WORD);
        let mut names: Vec<String> = way.iter().map(start).collect();
        if names.len() > NAMED {
            let last = names.split_off(names.len() - 2);
            names.truncate(NAMED - 2);
            names.push("…".to_owned());
            names.extend(last);
        }
        names.join(" → ")
    }
}
