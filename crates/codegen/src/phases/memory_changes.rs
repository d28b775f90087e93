//! What loads may find changed: which memory some instructions may have written, or let others write.
//!
//! Abstract operations say which space they write. Whatever lets other threads' writes be seen (a barrier, an access that is not weak, something that lanes do together) changes all of it.

use orias_ori::operation::{Order, Space};
use orias_ori::{Effects, Function, Inst};

/// The memory that may change.
#[derive(Clone, Copy, Default)]
pub(super) struct Changes {
    shared: bool,
    global: bool,
    local: bool,
}

impl Changes {
    /// All of it.
    pub(super) const ALL: Changes = Changes {
        shared: true,
        global: true,
        local: true,
    };

    /// What either says.
    #[must_use]
    pub(super) fn with(self, other: Changes) -> Changes {
        Changes {
            shared: self.shared | other.shared,
            global: self.global | other.global,
            local: self.local | other.local,
        }
    }

    /// Adds what loads may find changed behind `inst`.
    pub(super) fn note(&mut self, func: &Function, inst: Inst) {
        let effects = func.opcode(inst).effects();
        let ordered = func
            .modifier::<Order>(inst)
            .is_some_and(|order| order != Order::Weak);
        let together = Effects::CONVERGENT
            .with(Effects::BARRIER)
            .with(Effects::CALL);
        // What has an effect that is neither a store nor a jump may wait for others.
        let known = effects.intersects(Effects::WRITES.with(Effects::TERMINATOR));
        let waits = effects.intersects(Effects::SIDE) && !known;
        if ordered || waits || effects.intersects(together) {
            *self = Changes::ALL;
            return;
        }
        if !effects.intersects(Effects::WRITES) {
            return;
        }
        *self = self.with(match func.modifier::<Space>(inst) {
            Some(Space::Shared) => Changes {
                shared: true,
                ..Changes::default()
            },
            Some(Space::Global) => Changes {
                global: true,
                ..Changes::default()
            },
            Some(Space::Local) => Changes {
                local: true,
                ..Changes::default()
            },
            _ => Changes::ALL,
        });
    }

    /// Whether a load from `space` may find something else behind them.
    pub(super) fn touch(self, space: Space) -> bool {
        match space {
            Space::Shared => self.shared,
            Space::Global => self.global,
            Space::Local => self.local,
            Space::Param | Space::Const => false,
            _ => self.shared || self.global || self.local,
        }
    }
}
