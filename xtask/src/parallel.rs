//! Work spread over the cores of the host.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `function` makes of each item, in the order of the items.
pub fn map<T: Sync, R: Send>(items: &[T], function: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else {
                        return;
                    };
                    let result = function(item);
                    if let Ok(mut done) = done.lock() {
                        done.push((at, result));
                    }
                }
            });
        }
    });
    let mut done = done
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_the_order_of_their_items() {
        let items: Vec<u32> = (0..100).collect();
        let doubled = super::map(&items, |item| item * 2);
        assert_eq!(doubled, (0..200).step_by(2).collect::<Vec<u32>>());
        assert!(super::map(&[0; 0], |item| *item).is_empty());
    }
}
