//! The figures of one metric, one task after the other, in as few bytes as they need. The text has
//! all tasks of a metric together, but the view of a task is far from that of the next: to read
//! each view again for each metric would cost several times what writing costs.

use super::reading::{Emit, Number, Reading, Seen};

/// What a task shows of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// No series.
    Absent,
    /// One without further labels.
    Plain(Number),
    /// Some with further labels: they are read from its view again.
    Labelled,
}

impl Figure {
    /// That of what is seen.
    pub(super) fn of<T>(reading: &Reading<T>, seen: &Seen<'_, T>) -> Figure {
        let mut figure = Figure::Absent;
        let emit: &mut Emit<'_> = &mut |_, _| figure = Figure::Labelled;
        match reading {
            Reading::Gauge(get) => return get(seen.of).map_or(Figure::Absent, Figure::Plain),
            Reading::Counter(get) => {
                return get(seen.of)
                    .map_or(Figure::Absent, |it| Figure::Plain(it.never_negative()));
            }
            Reading::Gauges(_, each) | Reading::Counters(_, each) => each(seen.of, emit),
            Reading::GaugesAt(_, each) => each(seen, emit),
            Reading::Histogram(_) => return Figure::Labelled,
        }
        figure
    }
}

/// The figures of one metric. They are read once, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Column {
    /// Of each task a byte that is 0 if it has none, else its kind and how many bytes of a number
    /// follow.
    bytes: Vec<u8>,
    /// The number of tasks that were added or read.
    tasks: usize,
    /// Where the next one to be read begins.
    next: usize,
}

impl Column {
    /// Adds the figure of the task at this position. All between it and the one before have none.
    pub(super) fn add(&mut self, position: usize, figure: Figure) {
        let (kind, number) = match figure {
            Figure::Absent => return,
            Figure::Labelled => (1, 0),
            Figure::Plain(Number::Infinite) => (2, 0),
            Figure::Plain(Number::Count(count)) => (3, count),
            Figure::Plain(Number::Ms(ms)) => (4, ms),
            Figure::Plain(Number::Signed(number)) => (5, number.cast_unsigned()),
            Figure::Plain(Number::SignedMs(ms)) => (6, ms.cast_unsigned()),
        };
        self.bytes.resize(self.bytes.len() + position - self.tasks, 0);
        self.tasks = position + 1;
        let unused = number.leading_zeros() / 8;
        self.bytes.push(kind << 4 | u8::try_from(8 - unused).unwrap_or(0));
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self.bytes.truncate(self.bytes.len() - unused as usize);
    }

    /// Whether none of the tasks that come next has any.
    pub(super) fn is_empty(&self) -> bool {
        self.next >= self.bytes.len()
    }

    /// The figure of the next task.
    pub(super) fn next(&mut self) -> Figure {
        let Some((head, rest)) = self.bytes.get(self.next..).and_then(<[u8]>::split_first) else {
            self.tasks += 1;
            return Figure::Absent;
        };
        let length = head & 0xf;
        self.next += 1 + usize::from(length);
        let mut number = [0; 8];
        match rest.first_chunk() {
            Some(all) => number = *all,
            None => rest.iter().zip(&mut number).for_each(|(byte, place)| *place = *byte),
        }
        // What lies behind is the next figure's.
        let unused = u32::from(8 - length) * 8;
        let number = u64::from_le_bytes(number).unbounded_shl(unused).unbounded_shr(unused);
        match head >> 4 {
            1 => Figure::Labelled,
            2 => Figure::Plain(Number::Infinite),
            3 => Figure::Plain(Number::Count(number)),
            4 => Figure::Plain(Number::Ms(number)),
            5 => Figure::Plain(Number::Signed(number.cast_signed())),
            6 => Figure::Plain(Number::SignedMs(number.cast_signed())),
            _ => Figure::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back_in_their_order() {
        let plain = [
            Number::Count(0),
            Number::Count(255),
            Number::Count(256),
            Number::Count(u64::MAX),
            Number::Signed(-1),
            Number::Signed(i64::MIN),
            Number::Infinite,
            Number::Ms(0),
            Number::Ms(60_000),
            Number::SignedMs(i64::MAX),
            Number::SignedMs(-86_400_000),
        ];
        let figures: Vec<Figure> = plain
            .into_iter()
            .flat_map(|number| [Figure::Absent, Figure::Plain(number), Figure::Labelled])
            .chain([Figure::Absent; 3])
            .collect();
        let mut column = Column::default();
        for (position, figure) in figures.iter().enumerate() {
            column.add(position, *figure);
        }
        let read: Vec<Figure> = figures.iter().map(|_| column.next()).collect();
        assert_eq!(read, figures);
        assert!(column.is_empty());
        // The next ones are added when all before them were read, absent ones too.
        column.add(figures.len() + 1, Figure::Labelled);
        assert_eq!([column.next(), column.next()], [Figure::Absent, Figure::Labelled]);
    }
}
