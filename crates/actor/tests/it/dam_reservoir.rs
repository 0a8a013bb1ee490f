//! A dam's reservoir: bounded in messages and in bytes, with a policy when it is full.

use crate::common::*;

/// Notes its texts, and waits at its gate at "hold".
struct Sink {
    gate: Gate,
    notes: Notes<String>,
}

impl Actor for Sink {}

impl Handler<String> for Sink {
    type Reply = ();
    fn handle(&mut self, text: String, _cx: &mut Context<Self>) {
        if text == "hold" {
            self.gate.pass();
        } else {
            self.notes.push(text);
        }
    }
}

struct Scene {
    system: TestSystem,
    sink: ActorRef<Sink>,
    dam: ActorRef<Dam<String>>,
    gauge: DamGauge,
    control: DamControl,
    gate: Gate,
    notes: Notes<String>,
}

fn builder(messages: u64, bytes: u64, overload: Overload) -> DamBuilder<String> {
    Dam::credit(1)
        .reservoir(ReservoirBound { messages, bytes })
        .overload(overload)
        .weigh(|text: &String| text.len() as u64)
}

/// A dam whose only credit is spent on a message at which the sink waits.
fn scene(builder: DamBuilder<String>, dam_bound: usize) -> Scene {
    let system = system();
    let sink = Sink {
        gate: Gate::default(),
        notes: Notes::default(),
    };
    let (gate, notes) = (sink.gate.clone(), sink.notes.clone());
    let sink = system.spawn(sink);
    let dam = builder.in_front_of(sink.recipient()).expect("valid");
    let (gauge, control) = (dam.gauge(), dam.control());
    let config = LaneConfig::bounded(dam_bound).overload(Overload::Reject);
    let dam = system.spawn_once(SpawnOptions::new().lane(config), dam);
    let dam = dam.expect("valid options");
    dam.tell("hold".to_owned()).expect("alive");
    gate.wait_arrived(1);
    Scene {
        system,
        sink,
        dam,
        gauge,
        control,
        gate,
        notes,
    }
}

/// Tells the numbers as texts of this length, one after the other.
fn tell(scene: &Scene, numbers: Range<u64>, length: usize) {
    for number in numbers {
        let before = lane(&scene.dam, 0).handled;
        let text = format!("{number:0length$}");
        scene.dam.tell(text).expect("capacity");
        eventually("the dam has seen it", || {
            lane(&scene.dam, 0).handled > before
        });
    }
}

fn texts(numbers: Range<u64>, length: usize) -> Vec<String> {
    numbers.map(|it| format!("{it:0length$}")).collect()
}

#[track_caller]
fn check(bound: (u64, u64), overload: Overload, reason: &str, kept: Range<u64>) {
    let scene = scene(builder(bound.0, bound.1, overload), 100);
    tell(&scene, 0..20, 4);
    assert_eq!(scene.gauge.depth(), 10);
    assert_eq!(scene.gauge.shed(), 10);
    assert_eq!(count_of(&scene.system.dead_letters(), reason), 10);
    assert!(scene.gauge.high_water() <= 10);
    scene.gate.open();
    finish(&scene.system);
    assert_eq!(scene.notes.all(), texts(kept, 4));
    // The one that holds the sink, and ten of twenty.
    assert_eq!(scene.gauge.forwarded(), 11);
    assert_eq!(scene.gauge.depth(), 0);
}

#[test]
fn drop_newest_keeps_the_first() {
    check((10, 1_000), Overload::DropNewest, "dropped_newest", 0..10);
    check((1_000, 40), Overload::DropNewest, "dropped_newest", 0..10);
}

#[test]
fn reject_sheds_what_comes_as_no_is_there_to_take_it_back() {
    check((10, 1_000), Overload::Reject, "dropped_newest", 0..10);
}

#[test]
fn drop_oldest_keeps_the_last() {
    check((10, 1_000), Overload::DropOldest, "dropped_oldest", 10..20);
    check((1_000, 40), Overload::DropOldest, "dropped_oldest", 10..20);
}

#[test]
fn wait_leaves_the_rest_to_the_dams_own_mailbox() {
    let scene = scene(builder(10, 1_000, Overload::Wait), 5);
    let mut refused = Vec::new();
    let mut told = 0;
    while refused.len() < 10 || scene.gauge.depth() < 10 {
        match scene.dam.tell(format!("{told:04}")) {
            Ok(()) => told += 1,
            Err(TellError::Full(text)) => {
                refused.push(text);
                eventually("the dam has done what it can", || {
                    ["idle", "suspended"].contains(&scene.dam.snapshot().state.as_str())
                });
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(scene.gauge.depth(), 10);
    assert!((14..=15).contains(&told), "ten, and its mailbox: {told}");
    scene.gate.open();
    finish(&scene.system);
    assert_eq!(scene.notes.all(), texts(0..told, 4));
    assert_eq!(scene.gauge.shed(), 0);
    let lane = lane(&scene.dam, 0);
    assert_eq!(lane.accepted, told + 1);
    assert_eq!(count_of(&lane.shed, "full"), refused.len() as u64);
}

#[test]
fn wait_holds_in_bytes_too() {
    let scene = scene(builder(1_000, 40, Overload::Wait), 5);
    for number in 0..10 {
        scene.dam.tell(format!("{number:04}")).expect("capacity");
        let kept = number + 1;
        eventually("it is kept", || scene.gauge.depth() == kept);
    }
    suspended(&scene.dam);
    scene
        .dam
        .tell("0010".to_owned())
        .expect("its mailbox has capacity");
    assert_eq!(scene.gauge.depth(), 10);
    scene.gate.open();
    finish(&scene.system);
    assert_eq!(scene.notes.all(), texts(0..11, 4));
}

#[test]
fn a_full_dam_that_waits_can_be_told_to_drop_and_back() {
    let scene = scene(builder(10, 1_000, Overload::Wait), 5);
    tell(&scene, 0..10, 4);
    suspended(&scene.dam);
    for number in 10..15 {
        scene.dam.tell(format!("{number:04}")).expect("capacity");
    }
    let bound = |messages| ReservoirBound {
        messages,
        bytes: 1_000,
    };
    let coalesce = scene.control.set(bound(10), Overload::Coalesce);
    assert_eq!(coalesce, Err(DamError::Overload(Overload::Coalesce)));
    let empty = scene.control.set(bound(0), Overload::Wait);
    assert!(matches!(empty, Err(DamError::Reservoir(_))));
    assert_eq!((scene.gauge.depth(), scene.gauge.shed()), (10, 0));

    let set = scene.control.set(bound(10), Overload::DropOldest);
    assert_eq!(set, Ok(()));
    eventually("its mailbox is empty", || scene.gauge.shed() == 5);
    scene.control.set(bound(12), Overload::Wait).expect("valid");
    for number in 15..17 {
        scene.dam.tell(format!("{number:04}")).expect("capacity");
    }
    eventually("the bound has grown", || scene.gauge.depth() == 12);
    suspended(&scene.dam);
    scene.gate.open();
    finish(&scene.system);
    assert_eq!(scene.notes.all(), texts(5..17, 4));
    assert_eq!(scene.gauge.shed(), 5);
}

#[test]
fn a_message_that_never_fits_empties_no_reservoir() {
    let scene = scene(builder(1_000, 40, Overload::DropOldest), 100);
    tell(&scene, 0..10, 4);
    tell(&scene, 10..11, 41);
    assert_eq!(scene.gauge.shed(), 1);
    assert_eq!(scene.gauge.depth(), 10);
    scene.gate.open();
    finish(&scene.system);
    assert_eq!(scene.notes.all(), texts(0..10, 4));
}

#[test]
fn a_stopped_dam_that_was_full_counts_everything() {
    let scene = scene(builder(10, 1_000, Overload::Wait), 5);
    let mut told = 1;
    while scene.gauge.depth() < 10 {
        if scene.dam.tell("text".to_owned()).is_ok() {
            told += 1;
        }
    }
    while scene.dam.try_tell("text".to_owned()).is_ok() {
        told += 1;
    }
    scene.dam.stop();
    ended(&scene.dam);
    let queued = shed(&scene.dam, "stopped");
    assert_eq!(scene.gauge.forwarded() + scene.gauge.shed() + queued, told);
    assert_eq!(count_of(&scene.system.dead_letters(), "stopped"), told - 1);
    scene.gate.open();
    finish(&scene.system);
    assert_eq!(scene.notes.len(), 0);
    assert_eq!(lane(&scene.sink, 0).handled, 1);
}
