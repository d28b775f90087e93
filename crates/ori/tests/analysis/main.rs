//! Generated graphs and functions, and every analysis against the definition followed word for word.

mod divergence;
mod dominance;
mod frequency;
mod functions;
mod generate;
mod lanes;
mod liveness;
mod loops;
mod orders;
mod slow;
mod split;
mod uniform_registers;
