use super::*;
use std::process::{Child, Command, Stdio};

/// A `/proc` of our own making, removed at the end.
struct Proc(PathBuf);

impl Proc {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("measure-watch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// A process with these tasks (id, CPU nanoseconds).
    fn process(&self, pid: u32, parent: u32, start: u64, ticks: u64, tasks: &[(u32, u64)]) {
        let dir = self.0.join(pid.to_string());
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("task")).unwrap();
        // The name has what a parser could stumble over.
        let stat = format!(
            "{pid} (a) R 1 (b) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 0 0"
        );
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(
            dir.join("status"),
            "Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  100 kB\n",
        )
        .unwrap();
        for (task, cpu_ns) in tasks {
            let task = dir.join("task").join(task.to_string());
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("schedstat"), format!("{cpu_ns} 77 5\n")).unwrap();
        }
    }

    fn pss(&self, pid: u32, pss_kib: u64) {
        let text = format!("5555 [rollup]\nRss:    99 kB\nPss:   {pss_kib} kB\nPss_Dirty: 1 kB\n");
        fs::write(self.0.join(pid.to_string()).join("smaps_rollup"), text).unwrap();
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.0.join(pid.to_string())).unwrap();
    }

    fn watch(&self, pids: &[u32]) -> Watcher {
        Watcher::with_proc(self.0.clone(), pids).unwrap()
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn all_tasks_of_all_descendants_count() {
    let proc = Proc::new("family");
    proc.process(10, 1, 5, 0, &[(10, 100), (11, 200)]);
    proc.process(20, 10, 6, 0, &[(20, 1_000)]);
    proc.process(30, 20, 7, 0, &[(30, 5_000)]);
    proc.process(40, 1, 8, 0, &[(40, 90_000)]);
    let sample = proc.watch(&[10]).sample();
    assert_eq!(
        (sample.cpu_ns, sample.processes, sample.threads),
        (6_300, 3, 4)
    );
    assert_eq!((sample.rss_bytes, sample.pss_bytes), (300 * 1_024, None));
    // A descendant named as well counts once.
    assert_eq!(proc.watch(&[10, 20, 40]).sample().cpu_ns, 96_300);
}

#[test]
fn named_processes_are_kept_apart_and_nothing_counts_twice() {
    let proc = Proc::new("apart");
    proc.process(10, 1, 5, 0, &[(10, 100)]);
    proc.process(20, 10, 6, 0, &[(20, 1_000)]);
    proc.process(30, 20, 7, 0, &[(30, 5_000)]);
    proc.process(40, 1, 8, 0, &[(40, 90_000)]);
    // The second descends from the first, and takes its own child with it.
    let mut watcher = proc.watch(&[10, 20, 40]);
    let each = watcher.sample_each();
    let cpu_ns: Vec<u64> = each.iter().map(|sample| sample.cpu_ns).collect();
    let alive: Vec<u64> = each.iter().map(|sample| sample.processes).collect();
    assert_eq!((cpu_ns, alive), (vec![100, 6_000, 90_000], vec![1, 2, 1]));
    assert_eq!(Sample::sum(&each), watcher.sample());
    // One ends, and its child stays where it was, though its parent is another now.
    proc.end(20);
    proc.process(30, 10, 7, 0, &[(30, 5_500)]);
    let each = watcher.sample_each();
    let cpu_ns: Vec<u64> = each.iter().map(|sample| sample.cpu_ns).collect();
    assert_eq!(cpu_ns, [100, 6_500, 90_000]);
    assert_eq!((each[1].processes, each[1].rss_bytes), (1, 100 * 1_024));
}

#[test]
fn a_sum_knows_shared_pages_where_all_that_live_do() {
    let of = |processes, pss_bytes| Sample {
        rss_bytes: 100,
        processes,
        pss_bytes,
        ..Sample::default()
    };
    let known = Sample::sum(&[of(1, Some(7)), of(0, None), of(2, Some(5))]);
    assert_eq!((known.pss_bytes, known.memory_bytes()), (Some(12), 12));
    let unknown = Sample::sum(&[of(1, Some(7)), of(1, None)]);
    assert_eq!((unknown.pss_bytes, unknown.memory_bytes()), (None, 200));
    assert_eq!(Sample::sum(&[]), Sample::default());
}

#[test]
fn seconds_are_found_by_their_time_and_bounded() {
    let mut process = WatchedProcess::default();
    for at_s in [0, 1, 3] {
        process.push(ProcessSecond {
            at_s,
            cpu_ns: at_s * 10,
            memory_bytes: 1,
        });
    }
    assert_eq!(process.second(3).map(|second| second.cpu_ns), Some(30));
    assert_eq!(process.second(2), None);
    process.seconds = vec![ProcessSecond::default(); SECONDS_MAX];
    process.push(ProcessSecond::default());
    assert_eq!(process.seconds.len(), SECONDS_MAX);
}

#[test]
fn shared_pages_are_known_only_where_all_processes_tell() {
    let proc = Proc::new("memory");
    proc.process(10, 1, 5, 0, &[]);
    proc.process(20, 10, 6, 0, &[]);
    proc.pss(10, 60);
    let mut watcher = proc.watch(&[10]);
    assert_eq!(watcher.sample().pss_bytes, None);
    proc.pss(20, 20);
    assert_eq!(watcher.sample().pss_bytes, Some(80 * 1_024));
    let light = watcher.sample_light();
    assert_eq!((light.rss_bytes, light.pss_bytes), (200 * 1_024, None));
}

#[test]
fn what_ended_keeps_what_it_had_used() {
    let proc = Proc::new("ended");
    proc.process(10, 1, 5, 0, &[(10, 100), (11, 200)]);
    proc.process(20, 10, 6, 0, &[(20, 1_000)]);
    let mut watcher = proc.watch(&[10]);
    let before = watcher.sample();
    // A thread and a child end, the rest works on.
    proc.process(10, 1, 5, 0, &[(10, 150)]);
    proc.end(20);
    let after = watcher.sample();
    assert_eq!(after.cpu_since_ns(&before), 50);
    assert_eq!(
        (after.cpu_ns, after.processes, after.threads),
        (1_350, 1, 1)
    );
    proc.end(10);
    let last = watcher.sample();
    assert_eq!(
        (last.cpu_ns, last.processes, last.pss_bytes),
        (1_350, 0, None)
    );
}

#[test]
fn who_has_the_id_of_one_that_ended_is_not_watched() {
    let proc = Proc::new("reuse");
    proc.process(10, 1, 5, 0, &[(10, 100)]);
    let mut watcher = proc.watch(&[10]);
    watcher.sample();
    // A stranger, with a child of its own.
    proc.process(10, 1, 99, 0, &[(10, 7)]);
    proc.process(20, 10, 100, 0, &[(20, 1_000)]);
    let sample = watcher.sample();
    assert_eq!(
        (sample.cpu_ns, sample.processes, sample.rss_bytes),
        (100, 0, 0)
    );
    assert_eq!(watcher.members(), Vec::<u32>::new());
}

#[test]
fn a_descendant_whose_id_is_used_again_begins_at_nothing() {
    let proc = Proc::new("reuse-below");
    proc.process(10, 1, 5, 0, &[(10, 100)]);
    proc.process(20, 10, 6, 0, &[(20, 1_000)]);
    let mut watcher = proc.watch(&[10]);
    watcher.sample();
    proc.process(20, 10, 99, 0, &[(20, 7)]);
    assert_eq!(watcher.sample().cpu_ns, 1_107);
}

#[test]
fn an_orphan_stays_in_the_family() {
    let proc = Proc::new("orphan");
    proc.process(10, 1, 5, 0, &[(10, 100)]);
    proc.process(20, 10, 6, 0, &[(20, 1_000)]);
    let mut watcher = proc.watch(&[10]);
    watcher.sample();
    proc.end(10);
    proc.process(20, 1, 6, 0, &[(20, 1_500)]);
    let sample = watcher.sample();
    assert_eq!((sample.cpu_ns, sample.processes), (1_600, 1));
}

#[test]
fn no_figure_goes_back() {
    let proc = Proc::new("back");
    proc.process(10, 1, 5, 0, &[(10, 100), (11, 200)]);
    let mut watcher = proc.watch(&[10]);
    watcher.sample();
    // Another thread has the number of one that ended.
    proc.process(10, 1, 5, 0, &[(10, 100), (11, 3)]);
    assert_eq!(watcher.sample().cpu_ns, 300);
}

#[test]
fn ticks_are_believed_where_they_say_more() {
    let proc = Proc::new("ticks");
    // Threads that came and went between two samples show in stat only.
    proc.process(10, 1, 5, 3, &[(10, 1_000)]);
    assert_eq!(proc.watch(&[10]).sample().cpu_ns, 30_000_000);
}

#[test]
fn rubbish_in_proc_is_no_process() {
    let proc = Proc::new("rubbish");
    proc.process(10, 1, 5, 0, &[(10, 100)]);
    for (pid, stat) in [
        (20, ""),
        (21, "21 (x"),
        (22, "22 (x) S 10"),
        (23, "23 (x) S -1 a b"),
        (24, ")"),
    ] {
        let dir = proc.0.join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("stat"), stat).unwrap();
    }
    fs::create_dir_all(proc.0.join("sys")).unwrap();
    assert_eq!(proc.watch(&[10]).sample().processes, 1);
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let proc = Proc::new("missing");
    let error = Watcher::with_proc(proc.0.clone(), &[4_711]).unwrap_err();
    assert_eq!(error.pid, 4_711);
    assert!(
        error.to_string().contains("process 4711 cannot be watched"),
        "{error}"
    );
    assert!(Watcher::new(&[u32::MAX]).is_err());
}

/// Ends the processes of a test, whatever happens.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_process_and_its_child() {
    // A shell that works, then starts a child that waits for the end of its input.
    let child = Command::new("sh")
        .args([
            "-c",
            "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; cat; :",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let child = Ended(child);
    let mut watcher = Watcher::new(&[child.0.id()]).unwrap();
    assert!(
        std::path::Path::new("/proc/self/schedstat").exists(),
        "this kernel has schedstat"
    );
    let begin = std::time::Instant::now();
    let mut sample = watcher.sample();
    while sample.processes < 2 || sample.cpu_ns < 1_000_000 {
        assert!(begin.elapsed().as_secs() < 60, "{sample:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
        sample = watcher.sample();
    }
    assert!(
        sample.rss_bytes > 100_000 && sample.threads >= 2,
        "{sample:?}"
    );
    assert!(
        sample.pss_bytes.is_none_or(|pss| pss <= sample.rss_bytes),
        "{sample:?}"
    );
    drop(child);
}
