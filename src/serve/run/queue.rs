//! Jobs that wait. Clients take turns, and losses that can be evaluated together leave together.

use super::live::LiveJob;
use crate::serve::domain::id::JobId;
use crate::serve::domain::kinds::{Execution, Request};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The most jobs that are evaluated together, and the most memory that they may need.
const TOGETHER: usize = 256;
const BYTES_TOGETHER: f64 = (1u64 << 30) as f64;

/// The jobs that a worker takes. A long job does not delay short ones, and neither of them delays losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Short jobs that are evaluated together.
    Losses,
    /// Other short jobs.
    Short,
    /// Long jobs.
    Long,
}

impl Lane {
    /// All of them.
    pub(crate) const ALL: [Lane; 3] = [Lane::Losses, Lane::Short, Lane::Long];
}

/// A job that waits.
#[derive(Clone)]
pub(crate) struct Ticket {
    pub id: JobId,
    pub request: Arc<Request>,
    pub live: Arc<LiveJob>,
    pub created: f64,
    /// Whether it takes a second or two at most.
    pub short: bool,
    /// Bytes of memory that it needs.
    pub bytes: f64,
}

impl Ticket {
    /// The workers that take it.
    fn lane(&self) -> Lane {
        match (self.request.execution(), self.short) {
            (Execution::Jointly(_), true) => Lane::Losses,
            (Execution::InProcess(_), true) => Lane::Short,
            (_, false) => Lane::Long,
        }
    }

    /// Whether a device, by its name, may take it.
    fn suits(&self, device: &str) -> bool {
        self.request
            .device()
            .is_none_or(|wanted| wanted == "auto" || device.to_lowercase().contains(&wanted.to_lowercase()))
    }

    /// Whether both can be evaluated together. Both must be short.
    fn joins(&self, other: &Ticket) -> bool {
        match self.request.execution() {
            Execution::Jointly(kind) => self.short && other.short && kind.joins(&other.request),
            Execution::InProcess(_) => false,
        }
    }
}

#[derive(Default)]
struct Waiting {
    /// Clients in the order of their turns, each with its jobs in order.
    clients: VecDeque<(String, VecDeque<Ticket>)>,
    count: usize,
    /// Seats that are reserved and not yet taken, by client.
    reserved: HashMap<String, usize>,
    closed: bool,
}

/// The queue.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    most: usize,
    most_each: usize,
    batching: bool,
}

/// The queue is full: this many jobs wait already.
#[derive(Debug, PartialEq)]
pub(crate) enum Full {
    /// Jobs of all clients.
    Everyone(usize),
    /// Jobs of this client.
    Client(usize),
}

/// A place in the queue, reserved while the job is being recorded.
pub(crate) struct Seat<'a> {
    queue: &'a Queue,
    client: String,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        match waiting.reserved.get_mut(&self.client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(waiting.reserved.remove(&self.client)),
        }
    }
}

impl Queue {
    /// A queue with room for so many jobs of all clients and of each client. Without `batching` every loss is evaluated alone.
    pub(crate) fn new(most: usize, most_each: usize, batching: bool) -> Self {
        Queue { waiting: Mutex::default(), changed: Condvar::new(), most, most_each, batching }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The number of jobs that wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().count
    }

    /// Reserves a seat for another job of a client, if there is room.
    pub(crate) fn seat(&self, client: &str) -> Result<Seat<'_>, Full> {
        let mut waiting = self.lock();
        let all = waiting.count + waiting.reserved.values().sum::<usize>();
        if all >= self.most {
            return Err(Full::Everyone(waiting.count));
        }
        let tickets = waiting.clients.iter().find(|(name, _)| name == client).map_or(0, |(_, own)| own.len());
        let reserved = waiting.reserved.entry(client.to_owned()).or_default();
        if tickets + *reserved >= self.most_each {
            if *reserved == 0 {
                waiting.reserved.remove(client);
            }
            return Err(Full::Client(tickets));
        }
        *reserved += 1;
        Ok(Seat { queue: self, client: client.to_owned() })
    }

    /// Adds a job. This never fails: jobs of an earlier run of the service are added whatever the length.
    pub(crate) fn push(&self, client: &str, ticket: Ticket) {
        let mut waiting = self.lock();
        waiting.count += 1;
        match waiting.clients.iter_mut().find(|(name, _)| name == client) {
            Some((_, tickets)) => tickets.push_back(ticket),
            None => waiting.clients.push_back((client.into(), VecDeque::from([ticket]))),
        }
        drop(waiting);
        self.changed.notify_all();
    }

    /// Removes a job; none if it does not wait any more.
    pub(crate) fn remove(&self, id: &JobId) -> Option<Ticket> {
        let mut waiting = self.lock();
        let mut found = None;
        for (_, tickets) in &mut waiting.clients {
            if let Some(place) = tickets.iter().position(|ticket| ticket.id == *id) {
                found = tickets.remove(place);
            }
        }
        if found.is_some() {
            waiting.count -= 1;
            waiting.clients.retain(|(_, tickets)| !tickets.is_empty());
        }
        found
    }

    /// Waits for the next job for a device and lane, and takes it with all others that join it. Returns none once the queue is closed.
    pub(crate) fn wait(&self, device: &str, lane: Lane) -> Option<Vec<Ticket>> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(taken) =
                self.take(&mut waiting, |ticket| ticket.lane() == lane && ticket.suits(device))
            {
                return Some(taken);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn take(&self, waiting: &mut Waiting, suits: impl Fn(&Ticket) -> bool) -> Option<Vec<Ticket>> {
        let turn = waiting.clients.iter().position(|(_, tickets)| tickets.iter().any(&suits))?;
        let (client, mut tickets) = waiting.clients.remove(turn)?;
        let place = tickets.iter().position(&suits)?;
        let first = tickets.remove(place)?;
        // After its turn, a client goes to the end.
        waiting.clients.push_back((client, tickets));
        let (mut taken, mut bytes) = (vec![first.clone()], first.bytes);
        if self.batching {
            for (_, tickets) in &mut waiting.clients {
                tickets.retain(|ticket| {
                    let room = taken.len() < TOGETHER && bytes + ticket.bytes <= BYTES_TOGETHER;
                    let joins = room && first.joins(ticket);
                    if joins {
                        bytes += ticket.bytes;
                        taken.push(ticket.clone());
                    }
                    !joins
                });
            }
        }
        waiting.count -= taken.len();
        waiting.clients.retain(|(_, tickets)| !tickets.is_empty());
        Some(taken)
    }

    /// Closes the queue, so that workers end.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(number: u32, request: &str) -> Ticket {
        Ticket {
            id: JobId::try_from(format!("{number:032x}")).unwrap(),
            request: Arc::new(serde_json::from_str(request).unwrap()),
            live: Arc::default(),
            created: 0.0,
            short: request.contains("loss"),
            bytes: 0.0,
        }
    }

    fn loss(data: char, estimator: &str) -> String {
        let (model, data) = ("a".repeat(64), data.to_string().repeat(64));
        format!(r#"{{"kind": "loss", "model": "{model}", "dataset": "{data}", "estimator": "{estimator}"}}"#)
    }

    fn fit(device: &str) -> String {
        format!(r#"{{"kind": "fit", "dataset": "{}", "device": "{device}"}}"#, "b".repeat(64))
    }

    fn numbers(taken: Option<Vec<Ticket>>) -> Vec<u32> {
        let number = |ticket: &Ticket| u32::from_str_radix(ticket.id.as_str(), 16).unwrap();
        taken.into_iter().flatten().map(|ticket| number(&ticket)).collect()
    }

    #[test]
    fn clients_take_turns() {
        let queue = Queue::new(10, 10, true);
        (1..=3).for_each(|k| queue.push("greedy", ticket(k, &fit("auto"))));
        queue.push("modest", ticket(4, &fit("auto")));
        let order: Vec<u32> = (0..4).flat_map(|_| numbers(queue.wait("cpu", Lane::Long))).collect();
        assert_eq!(order, [1, 4, 2, 3]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn losses_with_the_same_settings_go_together_unless_batching_is_off() {
        for (batching, expected) in [(true, vec![1, 3, 4]), (false, vec![1])] {
            let queue = Queue::new(10, 10, batching);
            for (k, request) in
                [(1, loss('c', "u")), (2, loss('c', "v")), (3, loss('d', "u")), (4, loss('e', "u"))]
            {
                queue.push(if k < 4 { "one" } else { "two" }, ticket(k, &request));
            }
            let mut taken = numbers(queue.wait("cpu", Lane::Losses));
            taken.sort();
            assert_eq!(taken, expected);
        }
    }

    #[test]
    fn losses_that_need_much_memory_go_one_after_the_other() {
        let queue = Queue::new(10, 10, true);
        for k in 1..=4 {
            queue.push("one", Ticket { bytes: 0.4 * BYTES_TOGETHER, ..ticket(k, &loss('c', "u")) });
        }
        assert_eq!(numbers(queue.wait("cpu", Lane::Losses)), [1, 2]);
        assert_eq!(numbers(queue.wait("cpu", Lane::Losses)), [3, 4]);
    }

    #[test]
    fn devices_and_lanes_take_what_suits_them() {
        let queue = Queue::new(10, 10, true);
        queue.push("one", ticket(1, &fit("radeon")));
        queue.push("one", ticket(2, &fit("CPU")));
        queue.push("one", ticket(3, &loss('c', "u")));
        queue.push("one", Ticket { short: true, ..ticket(4, &fit("auto")) });
        assert_eq!(numbers(queue.wait("cpu", Lane::Losses)), [3]);
        assert_eq!(numbers(queue.wait("cpu", Lane::Short)), [4]);
        assert_eq!(numbers(queue.wait("cpu", Lane::Long)), [2]);
        assert_eq!(numbers(queue.wait("AMD Radeon", Lane::Long)), [1]);
        queue.close();
        assert!(Lane::ALL.into_iter().all(|lane| queue.wait("cpu", lane).is_none()));
    }

    #[test]
    fn a_job_that_waits_can_be_taken_out_and_a_full_queue_says_so() {
        let queue = Queue::new(1, 1, true);
        queue.push("one", ticket(1, &fit("auto")));
        assert_eq!(queue.seat("one").err(), Some(Full::Everyone(1)));
        let id = JobId::try_from(format!("{:032x}", 1)).unwrap();
        assert!(queue.remove(&id).is_some() && queue.remove(&id).is_none());
        let seat = queue.seat("one");
        assert!(seat.is_ok() && queue.seat("one").is_err(), "a reserved seat is taken");
        drop(seat);
        assert!(queue.seat("one").is_ok());
    }

    #[test]
    fn one_client_cannot_take_all_seats() {
        let queue = Queue::new(5, 2, true);
        queue.push("greedy", ticket(1, &fit("auto")));
        let seat = queue.seat("greedy").unwrap();
        assert_eq!(queue.seat("greedy").err(), Some(Full::Client(1)));
        let others: Vec<_> = ["a", "b", "c"].map(|client| queue.seat(client)).into_iter().flatten().collect();
        assert_eq!(others.len(), 3);
        assert_eq!(queue.seat("d").err(), Some(Full::Everyone(1)));
        drop((seat, others));
        assert!(queue.seat("greedy").is_ok());
        assert!(queue.lock().reserved.is_empty(), "free seats are not remembered");
    }
}
