//! Which group of a warp goes next, and who goes on without whom.
//!
//! In order, a group runs until it waits; then lanes it waits for go on, the youngest group of them first. Groups that go on for
//! long take turns at branches. By other schedules any group that can run may be next ([`Chooser`](crate::order::Chooser)): at a
//! branch that parts lanes, where a group waits, ends or yields, and at branches when its turn is over. Lanes that wait at a
//! convergence barrier go on without those that yield, and, because lanes may wait for one another in ways that no instruction tells, without
//! those that go on for millions of instructions.

use crate::warp::{Group, Wait, Warp, same_wait};

/// How many instructions a request to give way counts for.
const YIELD_WEIGHT: u32 = 1 << 17;
/// Instructions of groups that go on after which those that wait for them at a convergence barrier go on without them.
const PATIENCE: u32 = 1 << 22;

impl Warp {
    /// Gives the turn to another group that can run: when the current one waits for lanes of this warp, to the youngest that has
    /// some of them, otherwise to the next. So the sides of an inner branch come to its end before those of an outer one go on,
    /// which code that keeps uniform registers across inner branches relies on.
    pub fn rotate(&mut self) {
        if !self.chooser.is_in_order() {
            let all = self.ready(|_, _| true);
            return self.choose(&all);
        }
        self.since_switch = 0;
        let count = self.groups.len();
        let needed = self.groups.get(self.current).and_then(|it| self.needs(it));
        if let Some(needed) = needed
            && let Some(index) = self
                .groups
                .iter()
                .rposition(|group| group.wait == Wait::None && group.lanes & needed != 0)
        {
            self.current = index;
            return;
        }
        for step in 1..=count {
            let index = (self.current + step) % count;
            if self.groups[index].wait == Wait::None {
                self.current = index;
                return;
            }
        }
    }

    /// The groups that can run and fit.
    fn ready(&self, fits: impl Fn(usize, &Group) -> bool) -> Vec<usize> {
        let groups = self.groups.iter().enumerate();
        groups
            .filter(|(at, group)| group.wait == Wait::None && fits(*at, group))
            .map(|(at, _)| at)
            .collect()
    }

    /// Gives the turn to one of some groups, as the schedule says.
    fn choose(&mut self, among: &[usize]) {
        let groups = among.iter().map(|&at| &self.groups[at]);
        let groups: Vec<(u32, u64)> = groups
            .map(|group| (group.lanes, self.turns - group.turn))
            .collect();
        if !groups.is_empty() {
            let chosen = self.chooser.group(&groups);
            self.begin(among[chosen]);
        }
    }

    /// Begins the turn of a group.
    fn begin(&mut self, index: usize) {
        self.current = index;
        self.turns += 1;
        self.since_switch = 0;
        self.turn = self.chooser.group_turn();
        let group = &mut self.groups[index];
        group.yielded = false;
        group.turn = self.turns;
        self.take_uniforms();
    }

    /// Lets the current group have its uniform registers.
    pub fn take_uniforms(&mut self) {
        let lanes = self.groups[self.current].lanes;
        if let Some(uniforms) = &mut self.uniforms
            && !uniforms.is_running(lanes)
        {
            self.flight.land_uniforms(&mut self.registers);
            uniforms.switch(lanes, &mut self.registers);
        }
    }

    /// Gives the turn to one of the sides that `lanes` have just parted into.
    pub fn choose_side(&mut self, lanes: u32) {
        if !self.chooser.is_in_order() {
            let sides = self.ready(|_, group| group.lanes & lanes != 0);
            self.choose(&sides);
        }
    }

    /// Gives the turn to a group that has not yielded, whichever it is, if there is one.
    fn choose_awake(&mut self) {
        if self.chooser.is_in_order() {
            return self.rotate();
        }
        let awake = self.ready(|_, group| !group.yielded);
        if awake.is_empty() {
            let all = self.ready(|_, _| true);
            self.choose(&all);
        } else {
            self.choose(&awake);
        }
    }

    /// The turn of the current group is over: gives it to another so that each has one in the end.
    fn choose_fairly(&mut self) {
        if self.chooser.is_in_order() {
            return self.rotate();
        }
        let current = self.current;
        let others = self.ready(|at, _| at != current);
        let turns: Vec<u64> = others.iter().map(|&at| self.groups[at].turn).collect();
        if !turns.is_empty() {
            let chosen = self.chooser.fairly(&turns);
            self.begin(others[chosen]);
        }
    }

    /// When no group can run: lanes that wait at a convergence barrier for lanes that wait for them, at a `WARPSYNC`, go on
    /// without those, as after a `YIELD`. Whether there are any.
    pub fn untangle(&mut self) -> bool {
        let asked = (self.groups.iter())
            .filter(|group| matches!(group.wait, Wait::Lanes(_) | Wait::Collective { .. }))
            .fold(0, |asked, group| asked | self.needs(group).unwrap_or(0));
        let waiting: Vec<(Wait, u32)> = (self.groups.iter())
            .filter(|group| matches!(group.wait, Wait::Sync(_)) && group.lanes & asked != 0)
            .filter_map(|group| Some((group.wait, self.needs(group)?)))
            .collect();
        for (wait, needed) in &waiting {
            self.part_from_absent(*wait, *needed, u32::MAX);
        }
        self.settle();
        !waiting.is_empty()
    }

    /// Lets another group run, if the current one has had its share. Only branches call this: a uniform register that
    /// divergent code writes never lives across one, so groups cannot disturb each other there.
    pub fn take_turns(&mut self) {
        if self.groups.len() > 1 && self.since_switch >= self.turn {
            // Counted once, also where there is nobody to switch to.
            let passed = std::mem::take(&mut self.since_switch);
            self.choose_fairly();
            self.wear(passed);
        }
    }

    /// The current group says that it waits for something: others should run. If others wait for it to converge, and it
    /// keeps on waiting, they go on without it: it may be them that it waits for.
    pub fn give_way(&mut self) {
        if self.groups.len() > 1 {
            self.choose_fairly();
            self.wear(YIELD_WEIGHT);
        }
    }

    /// `YIELD`: lanes that wait at a convergence barrier for none but the current group go on without it, for good. It comes
    /// to the barrier by itself.
    pub fn let_pass(&mut self) {
        if self.groups.len() <= 1 {
            return;
        }
        let yielding = self.groups[self.current].lanes;
        if self.chooser.let_go() {
            self.go_on_without(yielding);
        }
        if let Some(index) = self.groups.iter().position(|it| it.lanes == yielding) {
            self.current = index;
            self.groups[index].yielded = true;
        }
        self.choose_awake();
    }

    /// Lanes that come to a convergence barrier go on at once where all that are missing have yielded and not had a turn since.
    pub fn pass_yielded(&mut self) {
        let yielded = (self.groups.iter())
            .filter(|group| group.yielded)
            .fold(0, |lanes, group| lanes | group.lanes);
        if yielded != 0 && self.chooser.let_go() {
            self.go_on_without(yielded);
        }
    }

    /// Lanes that wait at a convergence barrier for none but `dispensable` ones go on, for good.
    fn go_on_without(&mut self, dispensable: u32) {
        let waiting: Vec<(Wait, u32)> = (self.groups.iter())
            .filter(|group| matches!(group.wait, Wait::Sync(_)))
            .filter_map(|group| Some((group.wait, self.needs(group)?)))
            .collect();
        for (wait, needed) in waiting {
            self.part_from_absent(wait, needed, dispensable);
        }
        self.settle();
    }

    /// Parts the lanes that wait at a convergence barrier from those it names that are not there, if all of these are among
    /// `dispensable`.
    fn part_from_absent(&mut self, wait: Wait, needed: u32, dispensable: u32) {
        let Wait::Sync(barrier) = wait else {
            return;
        };
        let arrived = (self.groups.iter())
            .filter(|group| same_wait(wait, group.wait) && self.needs(group) == Some(needed))
            .fold(0, |lanes, group| lanes | group.lanes);
        if arrived == 0 || needed & !arrived & !dispensable != 0 {
            return;
        }
        let masks = &mut self.registers.b[usize::from(barrier)];
        for lane in crate::core::LaneIterator(needed) {
            masks[lane] &= match arrived >> lane & 1 {
                1 => arrived,
                _ => !arrived,
            };
        }
    }

    fn wear(&mut self, weight: u32) {
        self.patience = self.patience.saturating_add(weight);
        if self.patience < PATIENCE {
            return;
        }
        self.patience = 0;
        let waiting: Vec<(u8, u32)> = self
            .groups
            .iter()
            .filter_map(|group| match group.wait {
                Wait::Sync(barrier) => Some((barrier, group.lanes)),
                _ => None,
            })
            .collect();
        for (barrier, lanes) in waiting {
            self.leave(barrier, lanes);
            for group in &mut self.groups {
                if group.lanes == lanes && group.wait == Wait::Sync(barrier) {
                    group.wait = Wait::None;
                }
            }
        }
    }
}
