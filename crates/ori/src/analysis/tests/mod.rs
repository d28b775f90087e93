//! Generated graphs, and every analysis of shape against the definition followed word for word.

mod dominance;
mod generate;
mod loops;
mod orders;
mod slow;
mod split;
