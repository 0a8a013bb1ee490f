//! A program that shows its own system in its terminal. A postman sends more letters than his clerks can handle.
//!
//! ```console
//! cargo run --release -p freeboard-board --features terminal --example terminal
//! ```

use std::error::Error;
use std::time::Duration;

use freeboard_actor::{Actor, ActorRef, Context, Handler, SpawnOptions, System};
use freeboard_board::BoardOptions;
use freeboard_board::Query;
use freeboard_flow::{LaneConfig, Overload};

const CLERKS: usize = 12;
const LETTERS_A_ROUND: u64 = 200;
const ROUND: Duration = Duration::from_millis(5);

struct Clerk;

#[derive(Clone)]
struct Letter(u64);

impl Actor for Clerk {}

impl Handler<Letter> for Clerk {
    type Reply = ();

    fn handle(&mut self, letter: Letter, _cx: &mut Context<Self>) {
        let mut seal = letter.0;
        for _ in 0..2_000 {
            seal = std::hint::black_box(seal.rotate_left(5) ^ 0x9e37);
        }
    }
}

struct Postman {
    clerks: Vec<ActorRef<Clerk>>,
    rounds: u64,
}

#[derive(Clone)]
struct Round;

impl Actor for Postman {
    fn started(&mut self, cx: &mut Context<Self>) {
        // Without a timer there is no post, as the screen shows.
        let _ = cx.every(ROUND, Round);
    }
}

impl Handler<Round> for Postman {
    type Reply = ();

    fn handle(&mut self, _round: Round, _cx: &mut Context<Self>) {
        self.rounds += 1;
        // The first clerks get more than the last ones.
        for number in 0..LETTERS_A_ROUND {
            let clerk = (number % self.rounds % CLERKS as u64) as usize;
            // A full lane sheds the letter and counts it.
            let _ = self.clerks[clerk].try_tell(Letter(number));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let system = System::builder().name("post office").build()?;
    let clerks: Result<Vec<_>, _> = (0..CLERKS)
        .map(|number| {
            let lane = LaneConfig::bounded(1_000).overload(Overload::DropNewest);
            let options = SpawnOptions::new().name(format!("clerk {number}"));
            system.spawn_with(options.lane(lane), || Clerk)
        })
        .collect();
    let postman = Postman {
        clerks: clerks?,
        rounds: 0,
    };
    let _postman = system.spawn(postman);
    let board = BoardOptions::new().start()?;
    board.watch(&system);
    freeboard_board::terminal::run(board, Query::default(), Duration::from_millis(250), || {
        false
    })?;
    system.shutdown(Duration::from_secs(1));
    Ok(())
}
