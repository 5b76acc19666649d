//! A PostgreSQL server for tests, in a temporary folder, on a free loopback port, which ends with the process.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

use crate::scratch::Scratch;
use crate::wait;

/// Where distributions install the server's programs outside the search path.
const FOLDERS: [&str; 3] = ["/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt"];

/// The programs that the tests need, all in one folder.
const NEEDED: [&str; 4] = ["initdb", "postgres", "psql", "pg_isready"];

/// A shell script that starts a server and waits for the end of its standard input, which closes when the test process
/// ends for whatever reason. It then stops the server immediately and removes its folder.
const KEEPER: &str = r#"
"$1/postgres" -D "$2" -p "$3" -k "$2" -c listen_addresses=127.0.0.1 -c max_connections=400 -c log_min_messages=fatal $4 >"$2/server.log" 2>&1 </dev/null &
server=$!
echo $server
while read -r order; do kill -"$order" $server; done
kill -QUIT $server 2>/dev/null
wait $server
rm -rf "$2"
"#;

/// A server that runs until this value is dropped, or the process ends.
#[derive(Debug)]
pub struct PostgresServer {
    keeper: Child,
    orders: Option<ChildStdin>,
    programs: PathBuf,
    data: PathBuf,
    port: u16,
    user: Option<String>,
    settings: String,
    pid: u32,
}

impl PostgresServer {
    /// Starts a server, in memory if the machine supports it; `None` when no server is installed. `settings` are
    /// additional command-line arguments, such as `-c fsync=off`.
    pub fn start(settings: &str) -> Option<Self> {
        let parent = Scratch::new("postgres-place").path().parent()?.to_owned();
        Self::start_in(&parent, settings)
    }

    /// Starts a server whose files are below `parent`.
    pub fn start_in(parent: &Path, settings: &str) -> Option<Self> {
        let programs = programs()?;
        // The folder contains the server's socket, whose path is limited to 107 characters.
        let random = &teamster_fs::random_hex()[..12];
        let data = parent.join(format!("teamster-postgres-{random}"));
        std::fs::create_dir(&data).unwrap_or_else(|error| panic!("{}: {error}", data.display()));
        // The server refuses to run as root.
        let user = (teamster_fs::proc::user() == 0).then(|| {
            let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
            let has = |name: &str| {
                known
                    .lines()
                    .any(|line| line.starts_with(&format!("{name}:")))
            };
            let name = if has("postgres") {
                "postgres"
            } else {
                "nobody"
            };
            run(Command::new("chown").arg(name).arg(&data));
            name.to_owned()
        });
        let mut initdb = as_user(user.as_deref(), &programs.join("initdb"));
        initdb.args([
            "--no-sync",
            "--auth=scram-sha-256",
            "--username=postgres",
            "--encoding=UTF8",
        ]);
        let password = data.with_extension("password");
        write_for_all(&password, PASSWORD);
        initdb
            .arg(format!("--pwfile={}", password.display()))
            .arg("-D")
            .arg(&data);
        run(initdb.stdout(Stdio::null()));
        let _ = std::fs::remove_file(&password);
        let port = free_port();
        let mut server = Self::launch(programs, data, port, user, settings);
        server.wait_until_ready();
        Some(server)
    }

    fn launch(
        programs: PathBuf,
        data: PathBuf,
        port: u16,
        user: Option<String>,
        settings: &str,
    ) -> Self {
        let mut keeper = as_user(user.as_deref(), Path::new("sh"));
        keeper.args(["-c", KEEPER, "sh"]).arg(&programs).arg(&data);
        keeper.arg(port.to_string()).arg(settings);
        let spawned = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut keeper = spawned.unwrap_or_else(|error| panic!("no server can be kept: {error}"));
        let orders = keeper.stdin.take();
        let mut line = String::new();
        if let Some(said) = keeper.stdout.take() {
            let _ = BufReader::new(said).read_line(&mut line);
        }
        Self {
            keeper,
            orders,
            programs,
            data,
            port,
            user,
            settings: settings.to_owned(),
            pid: line.trim().parse().unwrap_or(0),
        }
    }

    fn wait_until_ready(&mut self) {
        let ready = self.programs.join("pg_isready");
        wait::wait_until("the PostgreSQL server is ready", || {
            let mut ask = Command::new(&ready);
            ask.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-q"]);
            ask.status().is_ok_and(|status| status.success())
        });
    }

    /// Creates a new, empty database and returns its URL.
    pub fn database(&self) -> String {
        let name = format!("t{}", teamster_fs::random_hex());
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Returns the URL of a database for the owner of the server.
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgres://postgres:{PASSWORD}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    /// Returns the port of the server.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the process id of the server.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the folder of the server.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Executes statements as the owner of the server and returns the output of `psql`: one row per line, values
    /// separated by `|`.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            statements,
        ]);
        psql.arg(self.url(database));
        let output = psql
            .output()
            .unwrap_or_else(|error| panic!("psql: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{statements}: {said}");
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    /// Stops the server immediately, as a crash would, and restarts it in the same folder.
    pub fn crash_and_restart(&mut self) {
        // The keeper removes the folder when it ends, so the folder is moved away before.
        let kept = self.data.with_extension("kept");
        let _ = std::fs::rename(&self.data, &kept);
        drop(self.orders.take());
        let _ = self.keeper.wait();
        let _ = std::fs::remove_dir_all(&self.data);
        std::fs::rename(&kept, &self.data).unwrap_or_else(|error| panic!("{error}"));
        let _ = std::fs::remove_file(self.data.join("postmaster.pid"));
        let (programs, data) = (self.programs.clone(), self.data.clone());
        let again = Self::launch(programs, data, self.port, self.user.clone(), &self.settings);
        let old = std::mem::replace(self, again);
        std::mem::forget(old);
        self.wait_until_ready();
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.keeper.wait();
    }
}

/// A PgBouncer in front of a server, in transaction pooling mode. It ends when this value is dropped.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Pooler {
    /// Starts a pooler with this many connections to a server; `None` when it is not installed.
    pub fn start(server: &PostgresServer, connections: usize) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
        let program = program.into_iter().map(Path::new).find(|it| it.exists())?;
        let port = free_port();
        let folder = server.data.with_extension("pooler");
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
        let settings = folder.join("pgbouncer.ini");
        write_for_all(
            &settings,
            &format!(
                "[databases]\n* = host=127.0.0.1 port={} user=postgres password={PASSWORD}\n[pgbouncer]\n\
                 listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
                 pool_mode = transaction\ndefault_pool_size = {connections}\nmax_client_conn = 400\n",
                server.port
            ),
        );
        let mut pooler = as_user(server.user.as_deref(), program);
        pooler.arg("-q").arg(&settings);
        pooler.stdout(Stdio::null()).stderr(Stdio::null());
        let child = pooler.spawn().unwrap_or_else(|error| panic!("{error}"));
        let pooler = Self {
            child,
            port,
            folder,
        };
        wait::wait_until("the pooler is ready", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(pooler)
    }

    /// Returns a database URL that goes through this pooler.
    pub fn url(&self, server: &PostgresServer, url: &str) -> String {
        url.replace(&format!(":{}/", server.port), &format!(":{}/", self.port))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The password of the owner of every test server, which is only reachable from this machine.
const PASSWORD: &str = "only-for-tests";

/// Returns the one server that the tests of this process share, or skips the check: an error when `CI` is set.
pub fn shared_server() -> Option<&'static PostgresServer> {
    static SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();
    let server = SERVER.get_or_init(|| PostgresServer::start("")).as_ref();
    if server.is_none() {
        crate::skip("no PostgreSQL server is installed").unwrap_or_else(|error| panic!("{error}"));
    }
    server
}

/// Returns the folder of the server's programs: from the search path, otherwise the newest that a distribution
/// installed.
pub fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut installed: Vec<(u32, PathBuf)> = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let digits: String = name.chars().filter(char::is_ascii_digit).collect();
            installed.push((digits.parse().unwrap_or(0), entry.path().join("bin")));
        }
    }
    installed.sort_unstable();
    found.extend(installed.into_iter().rev().map(|(_, bin)| bin));
    let is_whole = |folder: &PathBuf| NEEDED.iter().all(|name| folder.join(name).is_file());
    found.into_iter().find(is_whole)
}

fn as_user(user: Option<&str>, program: &Path) -> Command {
    let Some(user) = user else {
        return Command::new(program);
    };
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]);
    if user == "nobody" {
        command = Command::new("setpriv");
        command.args([
            "--reuid",
            user,
            "--regid",
            "nogroup",
            "--clear-groups",
            "--",
        ]);
    }
    command.arg(program).current_dir("/");
    command
}

fn write_for_all(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let written = std::fs::write(path, text)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap_or_else(|error| panic!("there is no free port: {error}"))
        .port()
}
