use super::generate::{GRAPHS, Random, graph};
use super::lanes::{IterationCounter, Moment};
use orias_ori::Block;
use orias_ori::analysis::{DepthFirst, FlowGraph, Loop, LoopNest, Split};
use std::collections::{BTreeMap, BTreeSet};

/// A node of a loop body looked at for one iteration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    Block(Block),
    Inner(Loop),
    Next,
    Out,
    /// After `Next`, `Out` and every place without successors.
    End,
    /// The middle of an edge, so that edges can be cut like places.
    Edge(usize),
}

/// One iteration of one loop, or of the function outside loops, built edge by edge from the definition.
struct Iteration {
    around: Option<Loop>,
    succs: BTreeMap<Place, BTreeSet<Place>>,
}

impl Iteration {
    fn new(graph: &FlowGraph, walk: &DepthFirst, nest: &LoopNest, around: Option<Loop>) -> Self {
        let inside = |block: Block| around.is_none_or(|l| nest.contains(l, block));
        let place = |block: Block| {
            let inner = nest
                .loops()
                .find(|&l| nest.parent(l) == around && nest.contains(l, block));
            inner.map_or(Place::Block(block), Place::Inner)
        };
        let mut iteration = Iteration {
            around,
            succs: BTreeMap::new(),
        };
        if around.is_some() {
            iteration
                .succs
                .insert(Place::Next, BTreeSet::from([Place::End]));
            iteration
                .succs
                .insert(Place::Out, BTreeSet::from([Place::End]));
        }
        for (number, (from, to)) in graph.edges().enumerate() {
            if !walk.is_reachable(from) || !inside(from) {
                continue;
            }
            let target = match to {
                to if !inside(to) => Place::Out,
                to if around.is_some_and(|l| nest.header(l) == to) => Place::Next,
                to => place(to),
            };
            if target != place(from) {
                iteration
                    .succs
                    .entry(place(from))
                    .or_default()
                    .insert(Place::Edge(number));
                iteration
                    .succs
                    .insert(Place::Edge(number), BTreeSet::from([target]));
            }
        }
        for &block in walk.preorder().iter().filter(|&&block| inside(block)) {
            let succs = iteration.succs.entry(place(block)).or_default();
            if succs.is_empty() {
                succs.insert(Place::End);
            }
        }
        iteration.succs.insert(Place::End, BTreeSet::new());
        iteration
    }

    /// The places a path from `from` leads to when `cut` is not there; `from` itself is not among them.
    fn reach(&self, from: Place, cut: impl Fn(Place) -> bool) -> BTreeSet<Place> {
        let mut seen = BTreeSet::new();
        let mut pending = vec![from];
        while let Some(place) = pending.pop() {
            for &succ in &self.succs[&place] {
                if !cut(succ) && seen.insert(succ) {
                    pending.push(succ);
                }
            }
        }
        seen
    }

    /// Whether two paths lead from `from` to `to` that share nothing else: no single place is on all of them.
    fn disjoint_paths(&self, from: Place, to: Place) -> bool {
        self.reach(from, |_| false).contains(&to)
            && self
                .succs
                .keys()
                .filter(|&&cut| cut != from && cut != to)
                .all(|&cut| self.reach(from, |place| place == cut).contains(&to))
    }

    fn post_dominates(&self, later: Place, earlier: Place) -> bool {
        later == earlier
            || !self
                .reach(earlier, |place| place == later)
                .contains(&Place::End)
    }

    /// The first place every path from `from` to the end goes through.
    fn meet(&self, from: Place) -> Place {
        let after: Vec<Place> = self
            .reach(from, |_| false)
            .into_iter()
            .filter(|&place| !matches!(place, Place::Edge(_)) && self.post_dominates(place, from))
            .collect();
        let first = after
            .iter()
            .copied()
            .find(|&place| after.iter().all(|&other| self.post_dominates(other, place)));
        first.expect("every path ends")
    }
}

/// What follows from a set of divergent branches, from the definition.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Consequences {
    pub(super) joins: BTreeSet<Block>,
    pub(super) loops: BTreeSet<Loop>,
    pub(super) partial: BTreeSet<Block>,
    pub(super) scattered: BTreeSet<Loop>,
}

pub(super) struct Slow<'a> {
    nest: &'a LoopNest,
    iterations: Vec<Iteration>,
    pub(super) found: Consequences,
}

impl<'a> Slow<'a> {
    pub(super) fn new(graph: &FlowGraph, walk: &DepthFirst, nest: &'a LoopNest) -> Self {
        let visible = nest
            .loops()
            .filter(|&l| opaque(nest, l).is_none())
            .map(Some);
        Slow {
            nest,
            iterations: visible
                .chain([None])
                .map(|around| Iteration::new(graph, walk, nest, around))
                .collect(),
            found: Consequences::default(),
        }
    }

    fn iteration(&self, around: Option<Loop>) -> &Iteration {
        self.iterations
            .iter()
            .find(|iteration| iteration.around == around)
            .expect("an iteration for each loop")
    }

    fn home(&self, block: Block) -> (Option<Loop>, Place) {
        match self
            .nest
            .innermost(block)
            .and_then(|l| opaque(self.nest, l))
        {
            Some(hiding) => (self.nest.parent(hiding), Place::Inner(hiding)),
            None => (self.nest.innermost(block), Place::Block(block)),
        }
    }

    pub(super) fn part(&mut self, branches: &[Block]) {
        let mut divergent: BTreeSet<(Option<Loop>, Place)> = BTreeSet::new();
        let mut pending: Vec<(Option<Loop>, Place)> = Vec::new();
        for &branch in branches {
            match self.home(branch) {
                (_, Place::Inner(hiding)) => self.scatter(hiding, &mut pending),
                home => pending.push(home),
            }
        }
        while let Some((around, place)) = pending.pop() {
            if !divergent.insert((around, place)) {
                continue;
            }
            let iteration = self.iteration(around);
            let places: Vec<Place> = iteration.succs.keys().copied().collect();
            let joins: Vec<Place> = places
                .iter()
                .copied()
                .filter(|&to| to != place && iteration.disjoint_paths(place, to))
                .collect();
            let meet = iteration.meet(place);
            let partial = iteration.reach(place, |on_the_way| {
                iteration.post_dominates(on_the_way, place)
            });
            for join in joins {
                match join {
                    Place::Block(block) => _ = self.found.joins.insert(block),
                    Place::Inner(inner) if self.nest.is_irreducible(inner) => {
                        self.scatter(inner, &mut pending)
                    }
                    Place::Inner(inner) => _ = self.found.joins.insert(self.nest.header(inner)),
                    Place::Next => {
                        _ = self
                            .found
                            .joins
                            .insert(self.nest.header(around.expect("a loop")))
                    }
                    Place::Out => pending.push(self.folded(around)),
                    // Two ways to the end of an iteration: one to the next iteration, the other out of the loop.
                    Place::End => {
                        if let Some(l) = around {
                            assert_eq!(meet, Place::End);
                            self.found.loops.insert(l);
                            self.found.partial.extend(self.nest.blocks(l));
                            pending.push(self.folded(around));
                        }
                    }
                    Place::Edge(_) => {}
                }
            }
            for place in partial {
                match place {
                    Place::Block(block) => _ = self.found.partial.insert(block),
                    Place::Inner(inner) => self.found.partial.extend(self.nest.blocks(inner)),
                    _ => {}
                }
            }
        }
    }

    fn folded(&self, around: Option<Loop>) -> (Option<Loop>, Place) {
        let around = around.expect("only a loop is left");
        (self.nest.parent(around), Place::Inner(around))
    }

    fn scatter(&mut self, each: Loop, pending: &mut Vec<(Option<Loop>, Place)>) {
        self.found.scattered.insert(each);
        self.found.loops.extend(self.nest.subtree(each));
        self.found.joins.extend(self.nest.blocks(each));
        self.found.partial.extend(self.nest.blocks(each));
        pending.push(self.folded(Some(each)));
    }

    pub(super) fn reconvergence_point(&self, block: Block) -> Option<Block> {
        let (mut around, mut place) = self.home(block);
        loop {
            place = self.iteration(around).meet(place);
            match place {
                Place::Block(block) => return Some(block),
                Place::Inner(inner) if self.nest.is_irreducible(inner) => {}
                Place::Inner(inner) => return Some(self.nest.header(inner)),
                Place::Next => return around.map(|l| self.nest.header(l)),
                Place::Out | Place::End => match around {
                    Some(_) => (around, place) = self.folded(around),
                    None => return None,
                },
                Place::Edge(_) => unreachable!("the middle of an edge is no meeting place"),
            }
        }
    }
}

/// The outermost irreducible loop that is `of` or around it.
fn opaque(nest: &LoopNest, of: Loop) -> Option<Loop> {
    nest.loops()
        .find(|&l| nest.is_irreducible(l) && nest.encloses(l, of))
}

fn found(split: &Split, graph: &FlowGraph, nest: &LoopNest) -> Consequences {
    Consequences {
        joins: graph.blocks().filter(|&b| split.is_join(b)).collect(),
        loops: nest
            .loops()
            .filter(|&l| split.is_divergent_loop(l))
            .collect(),
        partial: graph.blocks().filter(|&b| split.is_partial(b)).collect(),
        scattered: nest
            .loops()
            .filter(|&l| split.is_scattered(l) && opaque(nest, l) == Some(l))
            .collect(),
    }
}

fn random_branches(random: &mut Random, graph: &FlowGraph, walk: &DepthFirst) -> Vec<Block> {
    let chance = [15, 50][random.below(2)];
    let reachable = walk.preorder().iter().copied();
    reachable
        .filter(|&block| graph.succs(block).len() > 1 && random.chance(chance))
        .collect()
}

#[test]
fn joins_loops_and_partial_blocks_follow_the_definition() {
    let mut seen = [0; 4];
    for seed in 0..GRAPHS {
        let graph = graph(seed);
        let walk = DepthFirst::new(&graph);
        let nest = LoopNest::new(&graph, &walk);
        let mut random = Random::new(seed ^ 0xd1);
        let branches = random_branches(&mut random, &graph, &walk);
        let mut split = Split::new(&graph, &walk, &nest);
        for &branch in &branches {
            split.diverge(branch);
        }
        let mut slow = Slow::new(&graph, &walk, &nest);
        slow.part(&branches);
        let fast = found(&split, &graph, &nest);
        assert_eq!(
            fast,
            slow.found,
            "graph {seed}: {:?}, branches {branches:?}",
            graph.edges().collect::<Vec<_>>()
        );
        for &block in walk
            .preorder()
            .iter()
            .filter(|&&b| graph.succs(b).len() > 1)
        {
            assert_eq!(
                split.reconvergence_point(block),
                slow.reconvergence_point(block),
                "graph {seed}: {block}"
            );
        }
        let sizes = [
            fast.joins.len(),
            fast.loops.len(),
            fast.partial.len(),
            fast.scattered.len(),
        ];
        for (total, size) in seen.iter_mut().zip(sizes) {
            *total += size;
        }
    }
    assert!(
        seen.iter().all(|&total| total > 400),
        "the generator makes too little: {seen:?}"
    );
}

#[test]
fn giving_up_on_telling_joins_apart_only_adds_to_what_is_found() {
    for seed in 0..GRAPHS {
        let graph = graph(seed);
        let walk = DepthFirst::new(&graph);
        let nest = LoopNest::new(&graph, &walk);
        let mut random = Random::new(seed ^ 0xd1);
        let branches = random_branches(&mut random, &graph, &walk);
        let mut exact = Split::new(&graph, &walk, &nest);
        let mut coarse = Split::new(&graph, &walk, &nest);
        coarse.limit_steps(random.below(12));
        for &branch in &branches {
            exact.diverge(branch);
            coarse.diverge(branch);
        }
        let (exact, coarse) = (found(&exact, &graph, &nest), found(&coarse, &graph, &nest));
        assert!(exact.joins.is_subset(&coarse.joins), "graph {seed}");
        assert!(exact.loops.is_subset(&coarse.loops), "graph {seed}");
        assert!(exact.partial.is_subset(&coarse.partial), "graph {seed}");
        assert!(exact.scattered.is_subset(&coarse.scattered), "graph {seed}");
    }
}

/// One lane's run: where it came from and went to at each moment, and how many iterations each loop made.
#[derive(Default)]
struct Run {
    moments: BTreeMap<Moment, (Option<usize>, Option<usize>)>,
    order: Vec<Moment>,
    finished: bool,
}

/// Runs one lane. `outcomes` fixes what uniform branches do at each moment; other branches do as they like.
fn run(
    graph: &FlowGraph,
    nest: &LoopNest,
    divergent: &[Block],
    outcomes: &mut BTreeMap<Moment, usize>,
    random: &mut Random,
) -> Run {
    let mut lane = Run::default();
    let mut iterations = IterationCounter::default();
    let mut block = graph.entry();
    let mut came_by = None;
    for _ in 0..60 {
        let moment = iterations.enter(nest, block);
        let succs = graph.succs(block);
        if succs.is_empty() {
            lane.moments.insert(moment.clone(), (came_by, None));
            lane.order.push(moment);
            lane.finished = true;
            break;
        }
        let choice = random.below(succs.len());
        let choice = match divergent.contains(&block) {
            true => choice,
            false => *outcomes.entry(moment.clone()).or_insert(choice),
        };
        let before = lane.moments.insert(moment.clone(), (came_by, Some(choice)));
        assert_eq!(before, None, "a moment comes once");
        lane.order.push(moment);
        came_by = Some(
            graph
                .edges()
                .position(|(from, _)| from == block)
                .expect("an edge")
                + choice,
        );
        block = succs[choice];
    }
    lane
}

#[test]
fn lanes_that_run_are_never_seen_to_do_what_was_ruled_out() {
    let mut compared = 0;
    for seed in 0..GRAPHS {
        let graph = graph(seed);
        let walk = DepthFirst::new(&graph);
        let nest = LoopNest::new(&graph, &walk);
        let mut random = Random::new(seed ^ 0x5eed);
        let branches = random_branches(&mut random, &graph, &walk);
        let mut split = Split::new(&graph, &walk, &nest);
        for &branch in &branches {
            split.diverge(branch);
        }
        for _ in 0..12 {
            let mut outcomes = BTreeMap::new();
            let lanes = [(); 2].map(|()| run(&graph, &nest, &branches, &mut outcomes, &mut random));
            let [a, b] = &lanes;
            for (moment, (came_by, choice)) in &a.moments {
                let block = moment.0;
                let Some((other_came_by, other_choice)) = b.moments.get(moment) else {
                    let known = split.is_partial(block) || !b.finished;
                    assert!(
                        known,
                        "graph {seed}: {block} ran with part of the warp, branches {branches:?}"
                    );
                    continue;
                };
                compared += 1;
                assert!(
                    came_by == other_came_by || split.is_join(block),
                    "graph {seed}: {block} is a join, branches {branches:?}, {:?}",
                    graph.edges().collect::<Vec<_>>()
                );
                if choice == other_choice || !(a.finished && b.finished) {
                    continue;
                }
                // The lanes part here: both must come to the reconvergence point, at the same moment.
                if let Some(point) = split.reconvergence_point(block) {
                    let after = |lane: &Run| {
                        let at = lane
                            .order
                            .iter()
                            .position(|m| m == moment)
                            .expect("it was there");
                        lane.order[at + 1..].iter().find(|m| m.0 == point).cloned()
                    };
                    let (first, second) = (after(a), after(b));
                    let leaves = |m: &Option<Moment>| m.is_none();
                    let next_iteration = nest
                        .headed_by(point)
                        .is_some_and(|l| nest.contains(l, block));
                    assert!(
                        first == second || next_iteration && (leaves(&first) || leaves(&second)),
                        "graph {seed}: lanes that part at {block} meet at {point}: {first:?} {second:?}"
                    );
                }
            }
            for l in nest.loops().filter(|&l| !split.is_divergent_loop(l)) {
                // Iterations by the moment the loop was entered, where both lanes entered and left it.
                let iterations = |lane: &Run| {
                    let mut made: BTreeMap<Vec<(Loop, usize)>, usize> = BTreeMap::new();
                    for (_, iterations) in &lane.order {
                        if let Some(at) = iterations.iter().position(|&(around, _)| around == l) {
                            let count = made.entry(iterations[..at].to_vec()).or_default();
                            *count = iterations[at].1.max(*count);
                        }
                    }
                    made
                };
                let (first, second) = (iterations(a), iterations(b));
                for (entered, count) in first {
                    let other = second.get(&entered);
                    let equal = other.is_none_or(|&other| other == count);
                    assert!(
                        equal || !a.finished || !b.finished,
                        "graph {seed}: {l} is left in different iterations"
                    );
                }
            }
        }
    }
    assert!(compared > 100_000, "only {compared} moments compared");
}
