//! The views of all tasks, sorted by name. Copies share their unchanged parts, so the cost of a
//! snapshot depends on what changed since the previous one, not on the number of tasks.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::task::TaskView;

/// Number of neighbouring views that are shared or rebuilt together.
const CHUNK: usize = 64;

/// The kind of change to a task since its view was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Changed {
    No,
    /// It was read, or time has passed.
    Figures,
    /// Something happened.
    Event,
}

/// The views of all tasks, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskViews {
    /// All chunks except the last one are full.
    chunks: Vec<Arc<Vec<Arc<TaskView>>>>,
}

impl TaskViews {
    /// Number of views.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// Whether there are no views.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The view at this position.
    pub fn get(&self, position: usize) -> Option<&Arc<TaskView>> {
        self.chunks.get(position / CHUNK)?.get(position % CHUNK)
    }

    /// The first view.
    pub fn first(&self) -> Option<&Arc<TaskView>> {
        self.get(0)
    }

    /// The view of the task called `name`.
    pub fn find(&self, name: &str) -> Option<&Arc<TaskView>> {
        self.get(self.position(name)?)
    }

    /// The position of the task called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        let begins_before = |chunk: &Arc<Vec<Arc<TaskView>>>| {
            chunk.first().is_some_and(|view| *view.spec.name <= *name)
        };
        let number = self.chunks.partition_point(begins_before).checked_sub(1)?;
        let at =
            self.chunks.get(number)?.binary_search_by(|view| (*view.spec.name).cmp(name)).ok()?;
        Some(number * CHUNK + at)
    }

    /// Iterates over all views.
    pub fn iter(&self) -> Iter<'_> {
        Iter { views: self, next: 0 }
    }

    /// Rebuilds by `view` the views that have `changed` by at least `least` or do not exist yet.
    /// `view` receives their positions.
    pub(crate) fn renew(
        &mut self,
        changed: &mut [Changed],
        least: Changed,
        mut view: impl FnMut(usize) -> Option<TaskView>,
    ) {
        self.chunks.resize_with(changed.len().div_ceil(CHUNK), Arc::default);
        for ((chunk, changed), first) in
            self.chunks.iter_mut().zip(changed.chunks_mut(CHUNK)).zip((0..).step_by(CHUNK))
        {
            if changed.iter().all(|changed| *changed < least) {
                continue;
            }
            let renewed =
                changed.iter_mut().enumerate().filter_map(|(at, changed)| match chunk.get(at) {
                    Some(old) if *changed < least => Some(Arc::clone(old)),
                    _ => {
                        *changed = Changed::No;
                        Some(Arc::new(view(first + at)?))
                    }
                });
            *chunk = Arc::new(renewed.collect());
        }
    }
}

/// Collects views that are sorted by name.
impl FromIterator<Arc<TaskView>> for TaskViews {
    fn from_iter<I: IntoIterator<Item = Arc<TaskView>>>(views: I) -> TaskViews {
        let mut views: Vec<Arc<TaskView>> = views.into_iter().collect();
        views.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        TaskViews { chunks: views.chunks(CHUNK).map(|chunk| Arc::new(chunk.to_vec())).collect() }
    }
}

impl<'a> IntoIterator for &'a TaskViews {
    type Item = &'a Arc<TaskView>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterates over [`TaskViews`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    views: &'a TaskViews,
    next: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<TaskView>;

    fn next(&mut self) -> Option<&'a Arc<TaskView>> {
        self.nth(0)
    }

    fn nth(&mut self, count: usize) -> Option<&'a Arc<TaskView>> {
        let position = self.next.saturating_add(count);
        self.next = position.saturating_add(1);
        self.views.get(position)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.views.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;
    use crate::spec::{LockSpec, StoreIndex, TaskSpec};
    use crate::task::Task;
    use crate::time::Mono;

    fn view(name: &str, at: u64) -> TaskView {
        let spec = TaskSpec::new(name, StoreIndex(0), LockSpec::new(b"lock", "redisson"));
        Task::new(Arc::new(spec), "main".into(), Mono::at(at)).view(Mono::at(at))
    }

    fn name(position: usize) -> String {
        format!("t{position:04}")
    }

    fn renew(views: &mut TaskViews, changed: &mut [Changed], least: Changed) -> Vec<usize> {
        let mut made = Vec::new();
        views.renew(changed, least, |position| {
            made.push(position);
            Some(view(&name(position), 0))
        });
        made
    }

    #[test]
    fn what_has_not_changed_is_shared() {
        let (mut views, mut changed) = (TaskViews::default(), [Changed::Event; 200]);
        assert_eq!(renew(&mut views, &mut changed, Changed::Event).len(), 200);
        assert_eq!(changed, [Changed::No; 200]);
        let old = views.clone();
        (changed[70], changed[71], changed[199]) =
            (Changed::Event, Changed::Figures, Changed::Event);
        assert_eq!(renew(&mut views, &mut changed, Changed::Event), [70, 199]);
        assert_eq!(renew(&mut views, &mut changed, Changed::Event), [0; 0]);
        assert_eq!(
            changed.iter().position(|changed| *changed != Changed::No),
            Some(71),
            "that waits"
        );
        let is_shared = |position: &usize| {
            Arc::ptr_eq(old.get(*position).unwrap(), views.get(*position).unwrap())
        };
        let anew: Vec<usize> = (0..200).filter(|position| !is_shared(position)).collect();
        assert_eq!(anew, [70, 199]);
        assert_eq!(renew(&mut views, &mut changed, Changed::Figures), [71]);
        assert_eq!(changed, [Changed::No; 200]);
        assert!(
            Arc::ptr_eq(&old.chunks[0], &views.chunks[0])
                && Arc::ptr_eq(&old.chunks[2], &views.chunks[2])
        );
        assert!(renew(&mut views, &mut changed, Changed::Figures).is_empty());
    }

    #[test]
    fn each_is_found_by_its_name_and_position() {
        for count in [0, 1, 63, 64, 65, 128, 200] {
            let (mut views, mut changed) = (TaskViews::default(), [Changed::Event; 200]);
            renew(&mut views, &mut changed[..count], Changed::Figures);
            assert_eq!(
                (views.len(), views.is_empty(), views.iter().len()),
                (count, count == 0, count)
            );
            let names: Vec<String> =
                views.iter().map(|view| view.spec.name.as_ref().into()).collect();
            assert_eq!(names, (0..count).map(name).collect::<Vec<String>>());
            for position in 0..count {
                assert_eq!(views.position(&name(position)), Some(position));
                assert_eq!(*views.find(&name(position)).unwrap().spec.name, *name(position));
                assert_eq!(views.position(&(name(position) + "a")), None);
            }
            assert_eq!(
                (views.position(""), views.position("z"), views.get(count)),
                (None, None, None)
            );
            assert_eq!(views.iter().skip(60).count(), count.saturating_sub(60));
            let mut backwards: Vec<Arc<TaskView>> = views.iter().cloned().collect();
            backwards.reverse();
            assert_eq!(backwards.into_iter().collect::<TaskViews>(), views);
        }
    }
}
