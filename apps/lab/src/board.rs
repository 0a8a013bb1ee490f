//! The board of this process: `--board` shows whatever runs, and `freeboard board` runs something to show.
//!
//! One process has one board. Scenes build their systems deep down and one after the other, so each tells
//! the board of its own; without a board that is nothing.

mod demonstration;
mod devices;
mod flood;
mod mishaps;
mod stores;

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::OnceLock};

use anyhow::Result;
use clap::Args;
use freeboard::{
    System,
    board::{Board, BoardError, BoardOptions, LISTEN_DEFAULT, Shown},
    meter::Exposition,
};

use crate::{interrupt::Interrupt, serve::announce, token, usage::Usage};
pub(crate) use demonstration::DemonstrationArgs;

static BOARD: OnceLock<Board> = OnceLock::new();

/// The knobs of the board that all commands share.
#[derive(Debug, Clone, Args)]
pub(crate) struct BoardArgs {
    /// Show everything live on a page while it runs, at --board=ADDRESS:PORT or at 127.0.0.1:7700
    #[arg(long, visible_alias = "serve", global = true, value_name = "ADDRESS:PORT", num_args = 0..=1,
          require_equals = true, default_missing_value = LISTEN_DEFAULT)]
    board: Option<SocketAddr>,

    /// The token that a viewer must present, needed where others can reach the board; no other user may have access to the
    /// file [or: $FREEBOARD_TOKEN]
    #[arg(long, global = true, value_name = "FILE")]
    board_token_file: Option<PathBuf>,
}

impl BoardArgs {
    /// Starts the board, if it was asked for.
    ///
    /// # Errors
    /// [`Usage`]: the port is in use, or a token is missing.
    pub(crate) fn start(&self) -> Result<()> {
        let Some(address) = self.board else {
            return Ok(());
        };
        let board = self.serve(address)?;
        crate::console::say(&format!("board: {}", url(&board)));
        Ok(())
    }

    fn serve(&self, address: SocketAddr) -> Result<Board> {
        let mut options = BoardOptions::new();
        if let Some(token) = token::find(self.board_token_file.as_deref())? {
            options = options.token(token);
        }
        let board = options.serve(address).map_err(|error| match error {
            BoardError::TokenMissing(_) => Usage::new(format!(
                "{error}: put it into ${}, or use --board-token-file",
                token::VARIABLE
            )),
            error => Usage::new(error.to_string()),
        })?;
        Ok(BOARD.get_or_init(|| board).clone())
    }
}

fn url(board: &Board) -> String {
    let address = board
        .address()
        .map_or_else(String::new, |it| it.to_string());
    format!("http://{address}")
}

/// Shows a system, if there is a board.
pub(crate) fn watch(system: &System) {
    if let Some(board) = BOARD.get() {
        board.watch(system);
    }
}

/// Shows something else that counts for as long as what this returns is kept, if there is a board.
#[must_use]
pub(crate) fn show(
    kind: &str,
    name: &str,
    render: impl Fn(&mut Exposition) + Send + Sync + 'static,
) -> Option<Shown> {
    BOARD.get().map(|board| board.show(kind, name, render))
}

/// `freeboard board`: something to look at, until Ctrl-C.
pub(crate) fn board(
    args: &DemonstrationArgs,
    board_args: &BoardArgs,
    interrupt: &Interrupt,
) -> Result<ExitCode> {
    if board_args.board.is_some() {
        return Err(Usage::new("`freeboard board` has --listen in place of --board").into());
    }
    let board = board_args.serve(args.listen)?;
    let demonstration = demonstration::Demonstration::start(args)?;
    announce(&format!("{} shows it; Ctrl-C ends it", url(&board)))?;
    Ok(demonstration.run(interrupt))
}
