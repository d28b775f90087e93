//! Random machine instructions, drawn from the rows of the instruction set and their forms.

use super::Generator;
use super::shape::End;
use orias_ori::Level;
use orias_ori::machine::{self, EdgeRule, Falls};
use orias_ori::operation::AbstractOp;
use orias_ori::verify::check_instruction;
use orias_ori::{Address, BaseForm, Operand, SourceMods};
use orias_ori::{Block, Inst};
use orias_ori::{Class, Guard, OptReg, PhysReg, Reg, Type};
use orias_sass as sass;

const TARGET: sass::Target = sass::Target::DEFAULT;

impl Generator {
    /// An instruction of a random row that ends no block.
    pub(super) fn machine_inst(&mut self) {
        let index = self.rng.below(sass::Op::COUNT);
        if let Some(op) = sass::Op::all().nth(index)
            && !machine::ends_block(op)
            && let Some(inst) = self.draw(op, &[], false)
        {
            self.finish(inst);
        }
    }

    fn finish(&mut self, inst: Inst) {
        let span = self.span();
        self.func.set_span(inst, span);
        let block = self.current();
        self.func.layout.append_inst(inst, block);
        self.note(inst);
    }

    /// An instruction of `op` whose code addresses are edges to `targets`, if one can be drawn that is valid. A terminator
    /// has a guard, and perhaps another condition, if it is `conditional`.
    ///
    /// The form drawn need not be the one the instruction set prefers for these operands; what then does not fit is drawn
    /// again.
    fn draw(&mut self, op: sass::Op, targets: &[Block], conditional: bool) -> Option<Inst> {
        for _ in 0..4 {
            let inst = self.draw_once(op, targets, conditional)?;
            let mut valid = true;
            check_instruction(&self.func, inst, None, &mut |_, _| valid = false);
            if valid {
                return Some(inst);
            }
            self.func.abandon_inst(inst);
        }
        None
    }

    fn draw_once(&mut self, op: sass::Op, targets: &[Block], conditional: bool) -> Option<Inst> {
        let row = op.row();
        let forms: Vec<&sass::Form> = row
            .forms
            .iter()
            .filter(|form| form.targets.contains(TARGET))
            .collect();
        if forms.is_empty() {
            return None;
        }
        let form = *self.rng.pick(&forms);
        let mut mods = sass::Mods::ZERO;
        for modifier in row.modifiers {
            if !modifier.values.is_empty() {
                mods = mods.with(modifier, self.rng.pick(modifier.values).value);
            }
        }
        let mut operands = Vec::new();
        let mut edge = 0;
        for (index, (slot, place)) in row.slots.iter().zip(form.places).enumerate() {
            let width = machine::slot_width(op, mods, index);
            let operand = match &place.kind {
                sass::PlaceKind::Target { .. } if machine::is_jump_slot(op, index) => {
                    edge += 1;
                    Operand::Edge(edge - 1)
                }
                sass::PlaceKind::Target { .. } if slot.default.is_some() => Operand::None,
                sass::PlaceKind::Register { class, .. }
                    if machine::ends_block(op) && !conditional && slot.default.is_some() =>
                {
                    Class::from(*class)
                        .constant()
                        .map_or(Operand::None, Operand::from)
                }
                _ if slot.access.writes() => self.definition(place, width),
                _ => self.machine_source(slot, place, width),
            };
            operands.push(operand);
        }
        let guard = self.machine_guard(op, conditional);
        let inst = self.func.create_machine(op, mods, &operands);
        self.func.set_guard(inst, guard);
        let kept: Vec<Type> = self
            .func
            .kept_places(inst)
            .filter_map(|index| self.func.operands(inst)[index].reg())
            .map(|reg| self.func.reg_type(reg))
            .collect();
        let kept: Vec<Operand> = kept
            .into_iter()
            .map(|ty| self.pick_value(ty).into())
            .collect();
        self.func.set_kept(inst, &kept);
        if self.func.level != Level::Abstract && self.rng.one_in(12) {
            let (uses, defs) = (self.fixed_reg(), self.fixed_reg());
            self.func.set_implicit(inst, &[uses], &[defs]);
        }
        let edges: Vec<_> = targets
            .iter()
            .map(|&to| {
                let args = self.edge_args(to);
                self.func.create_edge(to, &args)
            })
            .collect();
        self.func.set_edges(inst, &edges);
        let reuse = |operand: &Operand| operand.mods().contains(SourceMods::REUSE);
        let reuses = self.func.operands(inst).iter().any(reuse);
        let control = self.control(reuses);
        self.func.set_control(inst, control);
        Some(inst)
    }

    fn fixed_reg(&mut self) -> Operand {
        let index = self.rng.below(250) as u8;
        let len = 1 + self.rng.below(4) as u8;
        PhysReg::tuple(Class::R, index, len)
            .unwrap_or(PhysReg::RZ)
            .into()
    }

    fn machine_guard(&mut self, op: sass::Op, conditional: bool) -> Guard {
        let Some(class) = machine::guard_class(op) else {
            return Guard::ALWAYS;
        };
        let wanted = if machine::ends_block(op) {
            conditional
        } else {
            self.rng.one_in(5)
        };
        if !wanted {
            return Guard::ALWAYS;
        }
        let reg = self.register(Type::single(class));
        if self.rng.one_in(2) {
            Guard::when(reg)
        } else {
            Guard::unless(reg)
        }
    }

    /// A register that is read: a value before allocation, a physical register after it.
    fn register(&mut self, ty: Type) -> Reg {
        if self.func.level.is_ssa() {
            self.pick_value(ty).into()
        } else {
            self.physical(ty).into()
        }
    }

    fn physical(&mut self, ty: Type) -> PhysReg {
        let alignment = usize::from(ty.alignment());
        let places = (usize::from(ty.class().count()) - usize::from(ty.len())) / alignment + 1;
        let index = (self.rng.below(places) * alignment) as u8;
        PhysReg::tuple(ty.class(), index, ty.len())
            .or(ty.class().constant())
            .unwrap_or(PhysReg::RZ)
    }

    fn definition(&mut self, place: &sass::Place, width: u8) -> Operand {
        let sass::PlaceKind::Register { class, .. } = place.kind else {
            return Operand::None;
        };
        let class = Class::from(class);
        if let Some(constant) = class.constant()
            && (width == 0 || self.rng.one_in(6))
        {
            return constant.into();
        }
        let ty = Type::tuple(class, width.max(1)).unwrap_or(Type::single(class));
        if self.func.level.is_ssa() {
            self.func.create_value(ty).into()
        } else {
            self.physical(ty).into()
        }
    }

    /// A register or, sometimes, the constant one.
    fn source_register(&mut self, class: Class, width: u8) -> Reg {
        if let Some(constant) = class.constant()
            && (width == 0 || self.rng.one_in(6))
        {
            return constant.into();
        }
        let ty = Type::tuple(class, width.max(1)).unwrap_or(Type::single(class));
        self.register(ty)
    }

    fn machine_source(&mut self, slot: &sass::Slot, place: &sass::Place, width: u8) -> Operand {
        let mods = self.source_mods(slot, place);
        match &place.kind {
            sass::PlaceKind::Register { class, .. } => Operand::Reg {
                reg: self.source_register((*class).into(), width),
                mods,
            },
            sass::PlaceKind::Immediate { field, .. } => {
                let bits = self.rng.next_u64() & field.max();
                if field.len() == 32 && self.rng.one_in(8) {
                    self.name(0)
                } else {
                    Operand::imm(bits)
                }
            }
            sass::PlaceKind::Constant(shape) => self.constant(shape, mods),
            sass::PlaceKind::Address(shape) => self.machine_address(shape),
            sass::PlaceKind::Descriptor { .. } => {
                Operand::Descriptor(self.source_register(Class::UR, width))
            }
            sass::PlaceKind::Target { .. } => {
                if self.rng.one_in(3) {
                    self.name(0)
                } else {
                    Operand::Block(self.any_block())
                }
            }
            sass::PlaceKind::Special { .. } => Operand::Special(self.rng.below(256) as u8),
        }
    }

    fn source_mods(&mut self, slot: &sass::Slot, place: &sass::Place) -> SourceMods {
        let mut mods = SourceMods::NONE;
        let reuse = if self.func.level == Level::Final {
            place.reuse
        } else {
            sass::Bit::NONE
        };
        for (bit, flag) in [
            (place.negate, SourceMods::NEGATE),
            (place.absolute, SourceMods::ABSOLUTE),
            (place.invert, SourceMods::NOT),
            (reuse, SourceMods::REUSE),
        ] {
            if bit.exists() && self.rng.one_in(4) {
                mods = mods.with(flag);
            }
        }
        if !place.select.is_empty() && !slot.selects.is_empty() {
            let select = self.rng.below(slot.selects.len()) as u8;
            mods = mods.with_select(select).unwrap_or(mods);
        }
        mods
    }

    fn constant(&mut self, shape: &sass::ConstantPlace, mods: SourceMods) -> Operand {
        let offset = if shape.signed {
            let half = shape.offset.max() as i64 / 2;
            self.rng.below(half as usize) as i32 - (half / 2) as i32
        } else {
            (self.rng.next_u64() & shape.offset.max()) as i32
        };
        if shape.handle.is_some() {
            return Operand::Bindless {
                mods,
                descriptor: self.source_register(Class::UR, 2),
                offset,
            };
        }
        let index = shape
            .index
            .map(|(class, _)| self.source_register(class.into(), 1));
        Operand::Const {
            mods,
            bank: (self.rng.next_u64() & shape.bank.max()) as u8,
            offset,
            index: OptReg::from(index),
        }
    }

    fn machine_address(&mut self, shape: &sass::AddressPlace) -> Operand {
        let base = shape
            .base
            .map(|base| self.source_register(base.class.into(), base.width));
        let uniform = shape
            .uniform
            .map(|_| self.source_register(Class::UR, shape.uniform_width));
        let descriptor = shape.descriptor.map(|_| self.source_register(Class::UR, 2));
        let offset = if shape.offset.is_empty() {
            0
        } else {
            let half = (shape.offset.max() / 2) as usize;
            self.rng.below(half) as i32 - (half / 2) as i32
        };
        let form = match shape.base.map(|base| base.kind) {
            None | Some(sass::BaseKind::Plain) => BaseForm::Plain,
            Some(sass::BaseKind::Wide) => BaseForm::Wide,
            Some(sass::BaseKind::Zero) => BaseForm::Unsigned,
        };
        self.func.create_address(Address {
            base: base.into(),
            uniform: uniform.into(),
            descriptor: descriptor.into(),
            symbol: None.into(),
            offset,
            form,
        })
    }

    pub(super) fn machine_end(&mut self, end: &End) {
        let placed = match end {
            End::Stop => {
                if self.func.level.is_ssa()
                    && self.rng.one_in(3)
                    && self.func.kind == orias_ori::FunctionKind::Device
                {
                    self.place_return();
                    true
                } else {
                    self.machine_terminator(&[], false)
                }
            }
            // Falling through is always right; in final code `end` names the next block only then.
            End::Go(to) => {
                self.goes_to_next(*to) && {
                    self.place_abstract_end(AbstractOp::FallThrough, &[], &[*to]);
                    true
                } || self.machine_terminator(&[*to], false)
            }
            End::Choose(a, b) => self.machine_terminator(&[*a, *b], true),
            End::Switch(targets) => self.machine_switch(targets),
        };
        assert!(placed, "the instruction set has a terminator for every end");
    }

    fn goes_to_next(&mut self, to: Block) -> bool {
        match self.func.level {
            Level::Final => self.func.layout.next_block(self.current()) == Some(to),
            _ => self.rng.one_in(2),
        }
    }

    /// A random terminator with these edges, the last of them by falling through if `falls`.
    fn machine_terminator(&mut self, targets: &[Block], falls: bool) -> bool {
        let jumps = targets.len() - usize::from(falls);
        let candidates: Vec<sass::Op> = sass::Op::all()
            .filter(|&op| {
                machine::ends_block(op)
                    && machine::jumps(op) == (jumps > 0)
                    && jump_slots(op) == jumps
            })
            .collect();
        self.machine_terminator_of(&candidates, targets, falls, |rule| {
            let falls_so = match rule.falls {
                Falls::Never => !falls,
                Falls::Maybe => true,
                Falls::Yes => falls,
            };
            !rule.indirect && rule.targets == jumps && falls_so
        })
    }

    fn machine_switch(&mut self, targets: &[Block]) -> bool {
        let candidates: Vec<sass::Op> = sass::Op::all()
            .filter(|&op| machine::jumps(op) && jump_slots(op) == 0)
            .collect();
        // The last of the listed targets must not be taken for falling through.
        self.machine_terminator_of(&candidates, targets, false, |rule| {
            rule.indirect && rule.falls != Falls::Yes
        })
    }

    fn machine_terminator_of(
        &mut self,
        candidates: &[sass::Op],
        targets: &[Block],
        conditional: bool,
        wanted: impl Fn(EdgeRule) -> bool,
    ) -> bool {
        for _ in 0..64 {
            if candidates.is_empty() {
                break;
            }
            let op = *self.rng.pick(candidates);
            if let Some(inst) = self.draw(op, targets, conditional) {
                if wanted(self.func.machine_edges(inst, op)) {
                    self.finish(inst);
                    return true;
                }
                self.func.abandon_inst(inst);
            }
        }
        false
    }
}

/// How many of the operation's operands are jump targets.
fn jump_slots(op: sass::Op) -> usize {
    (0..op.row().slots.len())
        .filter(|&slot| machine::is_jump_slot(op, slot))
        .count()
}
