//! Counts and examples of what was compared.

use std::collections::BTreeMap;

/// How often something happened, with a few examples.
#[derive(Default)]
pub struct Class {
    /// How often.
    pub count: usize,
    /// The first few.
    pub examples: Vec<String>,
}

/// Examples kept per class.
const EXAMPLES: usize = 3;

/// Classes by name.
#[derive(Default)]
pub struct Classes(pub BTreeMap<String, Class>);

impl Classes {
    /// Counts one case.
    pub fn add(&mut self, name: String, example: impl FnOnce() -> String) {
        let class = self.0.entry(name).or_default();
        class.count += 1;
        if class.examples.len() < EXAMPLES {
            class.examples.push(example());
        }
    }

    /// All cases.
    pub fn total(&self) -> usize {
        self.0.values().map(|class| class.count).sum()
    }

    /// Adds the cases of another.
    pub fn merge(&mut self, other: Classes) {
        for (name, class) in other.0 {
            let mine = self.0.entry(name).or_default();
            mine.count += class.count;
            let room = EXAMPLES.saturating_sub(mine.examples.len());
            mine.examples.extend(class.examples.into_iter().take(room));
        }
    }

    /// Prints the classes under a title, the largest first.
    pub fn print(&self, title: &str) {
        if self.0.is_empty() {
            return;
        }
        println!("{title}: {} in {} classes", self.total(), self.0.len());
        let mut classes: Vec<_> = self.0.iter().collect();
        classes.sort_by_key(|(name, class)| (std::cmp::Reverse(class.count), *name));
        for (name, class) in classes {
            println!("  {:>7}  {name}", class.count);
            for example in &class.examples {
                println!("           {example}");
            }
        }
    }
}
