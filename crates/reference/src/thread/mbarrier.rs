//! Mbarriers: what threads and asynchronous operations do to them.
//!
//! [`orias_eval::mbarrier`] is the object. What the manual forbids (more arrivals than are missing, an arrival that completes a phase where it
//! says that it will not) is a fault here.

use super::{Thread, World};
use crate::error::FaultKind;
use crate::library::little_endian;
use crate::model::Model;
use crate::races::CopyEngine;
use crate::step::{Address, MbarrierAction, MbarrierStep, Space};
use orias_eval::mbarrier::{Change, MOST_ARRIVALS, Mbarrier};

impl Thread {
    pub(super) fn mbarrier(
        &mut self,
        step: &MbarrierStep,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let (space, at) = self.mbarrier_place(step.address, world)?;
        let operand = match step.operand {
            Some(operand) => Some(self.read(operand, world)?),
            None => None,
        };
        let count = |operand: Option<u64>| operand.unwrap_or(1) as u32;
        match step.action {
            MbarrierAction::Init => {
                let arrivals = count(operand);
                if arrivals == 0 || arrivals > MOST_ARRIVALS {
                    return Err(FaultKind::Undefined(format!(
                        "an mbarrier for {arrivals} arrivals; 1 to {MOST_ARRIVALS} can be"
                    )));
                }
                let word = Mbarrier::new(arrivals).pack();
                self.put(space, at, &word.to_le_bytes(), world)?;
            }
            MbarrierAction::Invalidate => self.forget(space, at, 8, world)?,
            MbarrierAction::Arrive { drops, completes } => {
                let change = Change {
                    arrivals: count(operand),
                    transactions: 0,
                    drops,
                };
                self.tell_mbarrier(step, space, at, world)?;
                let (before, after) = self.change_mbarrier(space, at, change, world)?;
                if !completes && before.phase != after.phase {
                    return Err(FaultKind::Undefined(
                        "an arrival without completion that completes the phase".into(),
                    ));
                }
                self.write_element(step.result, before.pack());
            }
            MbarrierAction::ArriveExpecting { drops } => {
                let change = Change {
                    arrivals: 1,
                    transactions: operand.unwrap_or(0) as u32 as i64,
                    drops,
                };
                self.tell_mbarrier(step, space, at, world)?;
                let (before, _) = self.change_mbarrier(space, at, change, world)?;
                self.write_element(step.result, before.pack());
            }
            MbarrierAction::Expect => {
                let change = Change {
                    transactions: operand.unwrap_or(0) as u32 as i64,
                    ..Change::default()
                };
                self.change_mbarrier(space, at, change, world)?;
            }
            MbarrierAction::Complete => {
                let change = Change::completed(operand.unwrap_or(0) as u32 as i64);
                self.change_mbarrier(space, at, change, world)?;
            }
            MbarrierAction::TestState | MbarrierAction::TestParity => {
                let operand = operand.unwrap_or(0);
                let parity = match step.action {
                    MbarrierAction::TestState => Mbarrier::unpack(operand).phase,
                    _ => operand as u32,
                };
                let word = little_endian(self.bytes(space, at, 8, world)?);
                let over = Mbarrier::unpack(word).is_over(parity);
                self.looks = if over { 0 } else { self.looks + 1 };
                self.looked = Some(at);
                if over
                    && step.orders
                    && let Some(place) = self.place_of(space, at, 8, world)?
                    && let Some(meeting) = world.model.mbarrier(place, true)
                {
                    let span = self.span(world.code);
                    world.model.depart(self.actor, self.at(), meeting, span)?;
                }
                self.write_element(step.result, over.into());
            }
            // The copies that were begun happen now, at the latest moment before the arrival they trigger.
            MbarrierAction::ArriveAfterCopies { counted } => {
                // The thread itself hears of them no sooner than others.
                if let Some(count) = self.finish_copies(None, world)?
                    && let Some(place) = self.place_of(space, at, 8, world)?
                    && let Some(meeting) = world.model.mbarrier(place, false)
                    && let Model::Watched(races) = &mut *world.model
                {
                    races.arrive_with_copies(self.actor, CopyEngine::Thread, count, meeting);
                }
                if counted {
                    let change = Change {
                        arrivals: 1,
                        ..Change::default()
                    };
                    self.change_mbarrier(space, at, change, world)?;
                }
            }
        }
        Ok(())
    }

    /// Where an mbarrier is: in shared memory, at a multiple of eight.
    fn mbarrier_place(
        &self,
        address: Address,
        world: &World<'_>,
    ) -> Result<(Space, u64), FaultKind> {
        let (space, at) = self.resolve(address, world)?;
        if !matches!(space, Space::Shared | Space::Cluster) {
            return Err(FaultKind::Undefined(format!(
                "an mbarrier at {at:#x}, which is not in shared memory"
            )));
        }
        super::access::aligned(at, 8, space)?;
        Ok((space, at))
    }

    /// Changes an mbarrier in one step: before and after.
    fn change_mbarrier(
        &mut self,
        space: Space,
        at: u64,
        change: Change,
        world: &mut World<'_>,
    ) -> Result<(Mbarrier, Mbarrier), FaultKind> {
        let before = Mbarrier::unpack(little_endian(self.bytes(space, at, 8, world)?));
        if let Some(objection) = before.objection(change) {
            return Err(FaultKind::Undefined(format!(
                "the mbarrier at {at:#x}: {objection}"
            )));
        }
        let after = before.after(change);
        self.put(space, at, &after.pack().to_le_bytes(), world)?;
        if before.phase != after.phase
            && let Some(place) = self.place_of(space, at, 8, world)?
        {
            world.model.complete_phase(place);
        }
        Ok((before, after))
    }

    /// What came before an arrival is told to those that wait for the phase.
    fn tell_mbarrier(
        &self,
        step: &MbarrierStep,
        space: Space,
        at: u64,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        if step.orders
            && let Some(place) = self.place_of(space, at, 8, world)?
            && let Some(meeting) = world.model.mbarrier(place, false)
        {
            let span = self.span(world.code);
            world.model.arrive(self.actor, self.at(), meeting, span)?;
        }
        Ok(())
    }

    /// Tells an mbarrier that `bytes` of an asynchronous operation have come.
    pub(super) fn complete_transactions(
        &mut self,
        barrier: Address,
        bytes: u64,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let (space, at) = self.mbarrier_place(barrier, world)?;
        self.change_mbarrier(space, at, Change::completed(bytes as i64), world)?;
        Ok(())
    }
}
