// SPDX-License-Identifier: Apache-2.0
// Written by schemas.mjs from doc/reference/*.schema.json; a test keeps it true.

/** scry ps --json */
export type Ps = {
  /** newest first */ jobs: ({
    id: string;
    path: string;
    state: "running" | "ended" | "unwatched" | "lost" | "unreachable" | "unreadable";
    /** why it is unreadable */ reason?: string;
    name?: string;
    host?: string;
    argv?: string[];
    started_seconds?: number;
    /** as in report.schema.json */ batch?: {
      /** slurm, htcondor, pbs, lsf, sge */ system: string;
      /** its number of the job; null, here and below: it does not say */ id: string | null;
      /** 12_3: the task 3 of the array of jobs 12 */ array: string | null;
      /** of Slurm; null: the batch script */ step: string | null;
      /** or queue */ partition: string | null;
      nodes: number | null;
      /** that the job has on this node */ cpus: number | null;
      /** that it asked for, on this node */ memory_bytes: number | null;
      /** that it may run */ time_limit_seconds: number | null;
    } | null;
    /** as in report.schema.json */ status?: string;
    exit_code?: number | null;
    signal?: number | null;
    wall_seconds?: number;
    cpu_seconds?: number;
    peak_tree_rss_bytes?: number;
    /** how far the job says it is; null: it does not, or is over */ progress?: {
      /** the log, or the script, that tells it */ source: string;
      done: number;
      total: number;
      /** 0 to 1 */ share: number | null;
      /** from now until it is done, at the rate until now */ left_seconds: number | null;
    } | null;
    /** that live */ processes?: ({
      pid: number;
      /** parent, as last seen */ ppid: number;
      /** of one on another node than the job's: which; null: the job's own */ node: string | null;
      /** the kernel's name of the command, at most 15 bytes */ name: string;
      /** since the job's start */ start_seconds: number;
      /** null: alive, as far as is known */ end_seconds: number | null;
      cpu_seconds: number;
      /** 0: too short to be sampled */ peak_rss_bytes: number;
      /** at most at once */ threads: number;
      /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
      /** that killed it */ signal: number | null;
      /** who told exit_code or signal: the kernel's process events, a descriptor held on the process, scry run as its parent */ status_source: "event" | "pidfd" | "wait" | null;
      /** why it is not known how it ended; null: it is, or the process lives */ status_unknown: string | null;
      /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
      /** argv is not all of it */ argv_cut: boolean;
      /** working directory when its program began; null: not known */ cwd: string | null;
      /** the kernel's letter */ state: string;
      rss_bytes: number;
      /** processors used between the last two samples */ cpus: number;
    })[];
    /** of its MPI programs */ ranks?: ({
      /** in its MPI_COMM_WORLD */ rank: number;
      /** of its MPI_COMM_WORLD; -1: not known yet */ size: number;
      /** the launcher's name of the MPI program; one job can have several */ mpi_job: string;
      host: string;
      pid: number;
      library: "openmpi" | "mpich" | "";
      /** it was started by MPI_Comm_spawn */ spawned: boolean;
      /** starting: MPI_Init has not returned; ended: MPI_Finalize was called; died: without it; off: not counted at the moment, see fault */ state: "starting" | "computing" | "in_call" | "ended" | "died" | "aborted" | "off";
      /** the MPI call that it is in */ call: string | null;
      /** the call for people, with its peer, size and communicator */ doing: string | null;
      /** for how long it computes, or is in the call */ since_seconds: number;
      /** destination, source, root or target of the call, as a rank of MPI_COMM_WORLD; null: none, or any */ peer: number | null;
      tag: number | null;
      /** of the time since MPI_Init, in MPI calls: 0 to 1 */ mpi_share: number | null;
      /** of the time between the last two looks; null where it is looked at once */ recent_mpi_share: number | null;
      /** why it is not counted */ fault: string | null;
      /** how long ago this was so; 0: now. Ranks on other nodes are shown as they last said */ old_seconds: number;
    })[];
  })[];
};

/** scry top --json */
export type Top = {
  id: string;
  /** as in report.schema.json */ status: string;
  wall_seconds: number;
  /** all living processes together */ tree: {
    processes: number;
    threads: number;
    rss_bytes: number;
    cpu_seconds: number;
    /** processors in use */ cpu_share: number;
  };
  /** the node's last sample; null: none yet */ node: Record<string, unknown> | null;
  /** where each layer is now; records are those of records.schema.json */ layers: {
    /** the last told first */ progress: ({
      /** the log, or the script, that tells it */ source: string;
      done: number;
      total: number;
      /** 0 to 1 */ share: number | null;
      /** from now until it is done, at the rate until now */ left_seconds: number | null;
    })[];
    /** records script_line: where the innermost shell scripts are, the last change first */ scripts: unknown[];
    /** records script_line or python_stack of Python programs */ python: unknown[];
    /** the last such record */ functions: Record<string, unknown> | null;
    /** the last such record */ log: Record<string, unknown> | null;
    /** the last such record */ health: Record<string, unknown> | null;
    /** the last such record */ warning: Record<string, unknown> | null;
  };
  /** those that live */ processes: ({
    pid: number;
    /** parent, as last seen */ ppid: number;
    /** of one on another node than the job's: which; null: the job's own */ node: string | null;
    /** the kernel's name of the command, at most 15 bytes */ name: string;
    /** since the job's start */ start_seconds: number;
    /** null: alive, as far as is known */ end_seconds: number | null;
    cpu_seconds: number;
    /** 0: too short to be sampled */ peak_rss_bytes: number;
    /** at most at once */ threads: number;
    /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
    /** that killed it */ signal: number | null;
    /** who told exit_code or signal: the kernel's process events, a descriptor held on the process, scry run as its parent */ status_source: "event" | "pidfd" | "wait" | null;
    /** why it is not known how it ended; null: it is, or the process lives */ status_unknown: string | null;
    /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
    /** argv is not all of it */ argv_cut: boolean;
    /** working directory when its program began; null: not known */ cwd: string | null;
  })[];
  /** of its MPI programs */ ranks: ({
    /** in its MPI_COMM_WORLD */ rank: number;
    /** of its MPI_COMM_WORLD; -1: not known yet */ size: number;
    /** the launcher's name of the MPI program; one job can have several */ mpi_job: string;
    host: string;
    pid: number;
    library: "openmpi" | "mpich" | "";
    /** it was started by MPI_Comm_spawn */ spawned: boolean;
    /** starting: MPI_Init has not returned; ended: MPI_Finalize was called; died: without it; off: not counted at the moment, see fault */ state: "starting" | "computing" | "in_call" | "ended" | "died" | "aborted" | "off";
    /** the MPI call that it is in */ call: string | null;
    /** the call for people, with its peer, size and communicator */ doing: string | null;
    /** for how long it computes, or is in the call */ since_seconds: number;
    /** destination, source, root or target of the call, as a rank of MPI_COMM_WORLD; null: none, or any */ peer: number | null;
    tag: number | null;
    /** of the time since MPI_Init, in MPI calls: 0 to 1 */ mpi_share: number | null;
    /** of the time between the last two looks; null where it is looked at once */ recent_mpi_share: number | null;
    /** why it is not counted */ fault: string | null;
    /** how long ago this was so; 0: now. Ranks on other nodes are shown as they last said */ old_seconds: number;
  })[];
  /** traced functions of living processes, most time of their own first */ functions: ({
    name: string;
    file: string;
    line: number;
    calls: number;
    total_ns: number;
    self_ns: number;
    /** null: calls were only counted */ min_ns: number | null;
    max_ns: number | null;
  })[];
};

/** scry report --json */
export type Report = {
  id: string;
  /** from --name, or the batch system */ name: string;
  host: string;
  user: string;
  cwd: string;
  argv: string[];
  /** since 1970 */ started_seconds: number;
  /** the job in the batch system that started it; null: there is none */ batch: {
    /** slurm, htcondor, pbs, lsf, sge */ system: string;
    /** its number of the job; null, here and below: it does not say */ id: string | null;
    /** 12_3: the task 3 of the array of jobs 12 */ array: string | null;
    /** of Slurm; null: the batch script */ step: string | null;
    /** or queue */ partition: string | null;
    nodes: number | null;
    /** that the job has on this node */ cpus: number | null;
    /** that it asked for, on this node */ memory_bytes: number | null;
    /** that it may run */ time_limit_seconds: number | null;
  } | null;
  /** the job directory */ path: string;
  /** how it ended; of a job that has not: running; unwatched: its scry run was killed; lost: no end was recorded; unreachable: on another host, not heard of */ status: "running" | "exited" | "signaled" | "not_started" | "unwatched" | "lost" | "unreachable";
  /** what scry run exited with: the command's, or 128 + signal; null: not ended */ exit_code: number | null;
  /** of a job that is elsewhere: where this is from; null: its own directory */ mirror: {
    /** the broker, or "record" */ via: string;
    /** it has all but the traces */ complete: boolean;
    /** since 1970: when the job was heard last */ heard_seconds: number | null;
    /** what it lacks, for people */ note: string | null;
  } | null;
  /** that killed the command */ signal: number | null;
  /** why it got that signal, where it is known: "out of memory", "stack overflow", "a NULL pointer", a limit */ reason: string | null;
  core_dumped: boolean;
  wall_seconds: number;
  /** user and system time of all processes */ cpu_seconds: number;
  /** of the largest process */ peak_rss_bytes: number;
  /** of all processes together; shared pages count for each */ peak_tree_rss_bytes: number;
  process_count: number;
  processes_at_once: number;
  threads_at_once: number;
  /** processes that outlived the command */ left_running: number;
  /** not recorded: a full disk, a limit */ lost_records: number;
  /** what happened last in all layers; null: the job did not fail, or nothing but processes was recorded */ last: {
    /** the most probable one, a [note](notes.md); null: nothing that was recorded says why */ reason: {
      kind: string;
      note: string;
      fields: Record<string, unknown>;
      text: string;
      /** false: it is probable */ sure: boolean;
      /** seq of the records from which it follows */ evidence: number[];
    } | null;
    /** in the order of their times */ events: ({
      /** since the start of the job */ seconds: number;
      before_end_seconds: number;
      /** the layer, as in records */ stream: string;
      /** how much it has to do with it */ weight: "aside" | "place" | "hint" | "trouble" | "failure";
      text: string;
      /** the innermost first */ stack?: string[];
      /** of the record */ seq?: number;
    })[];
  } | null;
  /** sums over the job's own node, which the other members are of, and its parts */ all_nodes: {
    cpu_seconds: number;
    /** of the largest process */ peak_rss_bytes: number;
    /** of peak_tree_rss_bytes of the nodes, which need not be of the same moment */ sum_of_peaks_bytes: number;
    process_count: number;
    left_running: number;
    lost_records: number;
  };
  /** the other nodes of a job that ran on several: what was recorded there */ parts: ({
    /** of the node */ name: string;
    /** seconds from the start of the job until that of the part; times of the part count from there */ started_at: number;
    /** what is missing of it, for people; null: nothing */ incomplete: string | null;
    clock: {
      /** the node's clock minus the job's; 0: not known */ offset_ns: number;
      /** so far that may be off */ bound_ns: number;
    };
    job: {
      id: string;
      /** from --name, or the batch system */ name: string;
      host: string;
      user: string;
      cwd: string;
      argv: string[];
      /** since 1970 */ started_seconds: number;
      /** the job in the batch system that started it; null: there is none */ batch: {
        /** slurm, htcondor, pbs, lsf, sge */ system: string;
        /** its number of the job; null, here and below: it does not say */ id: string | null;
        /** 12_3: the task 3 of the array of jobs 12 */ array: string | null;
        /** of Slurm; null: the batch script */ step: string | null;
        /** or queue */ partition: string | null;
        nodes: number | null;
        /** that the job has on this node */ cpus: number | null;
        /** that it asked for, on this node */ memory_bytes: number | null;
        /** that it may run */ time_limit_seconds: number | null;
      } | null;
      /** the job directory */ path: string;
      /** how it ended; of a job that has not: running; unwatched: its scry run was killed; lost: no end was recorded; unreachable: on another host, not heard of */ status: "running" | "exited" | "signaled" | "not_started" | "unwatched" | "lost" | "unreachable";
      /** what scry run exited with: the command's, or 128 + signal; null: not ended */ exit_code: number | null;
      /** of a job that is elsewhere: where this is from; null: its own directory */ mirror: {
        /** the broker, or "record" */ via: string;
        /** it has all but the traces */ complete: boolean;
        /** since 1970: when the job was heard last */ heard_seconds: number | null;
        /** what it lacks, for people */ note: string | null;
      } | null;
      /** that killed the command */ signal: number | null;
      /** why it got that signal, where it is known: "out of memory", "stack overflow", "a NULL pointer", a limit */ reason: string | null;
      core_dumped: boolean;
      wall_seconds: number;
      /** user and system time of all processes */ cpu_seconds: number;
      /** of the largest process */ peak_rss_bytes: number;
      /** of all processes together; shared pages count for each */ peak_tree_rss_bytes: number;
      process_count: number;
      processes_at_once: number;
      threads_at_once: number;
      /** processes that outlived the command */ left_running: number;
      /** not recorded: a full disk, a limit */ lost_records: number;
    };
    timeline: {
      rss_bytes: {
        window_seconds: number;
        /** the greatest value in each window; null: not measured */ max: (number | null)[];
      };
      cpus: {
        window_seconds: number;
        /** the greatest value in each window; null: not measured */ max: (number | null)[];
      };
      processes: {
        window_seconds: number;
        /** the greatest value in each window; null: not measured */ max: (number | null)[];
      };
    };
    node: {
      host: string;
      os?: string;
      release?: string;
      arch?: string;
      cpus: number | null;
      memory_bytes: number | null;
    } | null;
    /** what failed; null: out of memory */ failed: {
      /** processes that ended with another status than 0, or by a signal */ count: number;
      /** processes of which it is not known how they ended */ unknown: number;
      unknown_reasons: {
        reason: string;
        count: number;
      }[];
      /** of all processes the first that failed, whether anybody minded or not */ first: {
        pid: number;
        name: string;
        start_seconds: number;
        end_seconds: number;
        /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
        /** that killed it */ signal: number | null;
        /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
        /** argv is not all of it */ argv_cut: boolean;
        /** working directory when its program began; null: not known */ cwd: string | null;
      } | null;
      /** what made the command fail: the process that failed first, then its parents up to the command, which is the last; empty: the command did not fail. Of the children of one that failed it is the first to fail after which it started nothing more, else the last whose status it ended with itself */ chain: ({
        pid: number;
        name: string;
        start_seconds: number;
        end_seconds: number;
        /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
        /** that killed it */ signal: number | null;
        /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
        /** argv is not all of it */ argv_cut: boolean;
        /** working directory when its program began; null: not known */ cwd: string | null;
      })[];
    } | null;
    /** of a job over several nodes, what failed first on another one and made the command fail; null: nothing that is known */ failed_elsewhere: {
      node: string;
      /** the process that failed first there, its parents, and the command, which has the pid 0; seconds are since the start of the job */ chain: ({
        pid: number;
        name: string;
        start_seconds: number;
        end_seconds: number;
        /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
        /** that killed it */ signal: number | null;
        /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
        /** argv is not all of it */ argv_cut: boolean;
        /** working directory when its program began; null: not known */ cwd: string | null;
      })[];
    } | null;
    /** trigger rules of the job */ rules: ({
      rule: string;
      /** how often */ fired: number;
      /** in how many of them an action failed */ failed?: number;
      /** the first 1000 times */ firings: ({
        /** since the start of the job, when scry run heard of it */ seconds: number;
        results: ({
          /** its place in the list, from 1 */ action: number;
          service?: string;
          objects: string | null;
          status: number;
          /** the name of the status, if the action failed */ error?: string;
          result: string | null;
        })[];
      })[];
    })[];
    /** of processes, by the service ct_snapshot */ snapshots: {
      /** in the job directory */ file: string;
      seconds: number;
      process: number;
      program: string;
      /** the event that it was taken at; empty: none */ service: string;
      function: string;
      args: string;
      /** the open calls of the thread, the innermost first */ calls: string[];
    }[];
    crashes: {
      pid: number;
      name: string;
      signal: number;
      core_dumped?: boolean;
      /** that it could not use; from 2^63 on, less 2^64 */ address?: number;
      /** what is wrong with that: "stack overflow", "a NULL pointer" */ reason?: string;
      t: number;
      /** core file */ core?: string;
      note?: string;
      frames?: {
        pc: number;
        /** of a function that an interpreter executes, at pc */ language?: "python";
        function?: string;
        file?: string;
        line?: number;
        module?: string;
      }[];
    }[];
    /** of each kind the first and the last ones, 100 at least */ warnings: {
      kind: string;
      note?: string;
      fields?: Record<string, unknown>;
      text: string;
      t: number;
    }[];
    /** kinds of which there were more than are listed, and how many more */ warnings_omitted: {
      /** their note, or where they have none their kind */ kind: string;
      count: number;
    }[];
    scripts: {
      /** scripts that ended, of most time first */ files: {
        file: string;
        /** processes that ran it and ended */ count: number;
        failed: number;
        seconds: number;
      }[];
      /** of all runs together, of most time first */ lines: ({
        file: string;
        line: number | null;
        /** as it is written, not expanded; null: not known */ command: string | null;
        /** 0: not counted, it was only seen */ count: number;
        failed: number;
        seconds: number;
      })[];
      /** where each process was seen last: records script_line */ places: unknown[];
      /** the last ones: records command_failed */ failed_commands: unknown[];
      failed_commands_total: number;
      /** that nothing caught, the last ones: records python_exception */ exceptions: unknown[];
      exceptions_total: number;
      /** exceptions that were caught, the last ones */ caught: unknown[];
      caught_total: number;
      /** of most time of their own first */ python_functions: ({
        function: string;
        file: string;
        line: number | null;
        calls: number;
        total_ns: number;
        self_ns: number;
      })[];
      python_calls: number;
    };
    logs: {
      /** lines that matched a pattern of this level */ error_lines: number;
      warning_lines: number;
      info_lines: number;
      debug_lines: number;
      patterns: ({
        pattern: string;
        level: "error" | "warning" | "info" | "debug";
        /** that matched, also those not listed */ lines: number;
        /** when the last one was seen */ last_seconds: number;
      })[];
      /** the last ones: records log */ errors: unknown[];
      /** the last ones of any level: records log */ lines: unknown[];
      /** of each source the last: records progress */ progress: unknown[];
      /** what became of each last: records log_file */ files: unknown[];
    };
    health: {
      /** that were measured */ curves: ({
        name: "cpu" | "iowait" | "steal" | "memory" | "cgroup_memory" | "swap_bytes" | "pressure_cpu" | "pressure_memory" | "pressure_io" | "disk_read_bytes" | "disk_written_bytes" | "received_bytes" | "sent_bytes";
        /** the greatest value; shares are from 0 to 1, of disks and network bytes a second */ most: number;
        window_seconds: number;
        /** the greatest value in each window; null: not measured */ max: (number | null)[];
      })[];
      /** with the least left first */ filesystems: ({
        path: string;
        total_bytes: number | null;
        least_free_bytes: number | null;
        /** when that was */ least_free_at: number;
        /** as last seen */ free_bytes: number | null;
        inodes: number | null;
        least_free_inodes: number | null;
        free_inodes: number | null;
      })[];
      /** processes of the control group that the kernel killed for lack of memory */ oom_kills: number;
    };
    /** ended processes by name */ commands: {
      name: string;
      count: number;
      cpu_seconds: number;
      peak_rss_bytes: number;
    }[];
    /** false: those too short to be sampled are missing in processes and process_count */ processes_listed_singly: boolean;
    processes: ({
      pid: number;
      /** parent, as last seen */ ppid: number;
      /** of one on another node than the job's: which; null: the job's own */ node: string | null;
      /** the kernel's name of the command, at most 15 bytes */ name: string;
      /** since the job's start */ start_seconds: number;
      /** null: alive, as far as is known */ end_seconds: number | null;
      cpu_seconds: number;
      /** 0: too short to be sampled */ peak_rss_bytes: number;
      /** at most at once */ threads: number;
      /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
      /** that killed it */ signal: number | null;
      /** who told exit_code or signal: the kernel's process events, a descriptor held on the process, scry run as its parent */ status_source: "event" | "pidfd" | "wait" | null;
      /** why it is not known how it ended; null: it is, or the process lives */ status_unknown: string | null;
      /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
      /** argv is not all of it */ argv_cut: boolean;
      /** working directory when its program began; null: not known */ cwd: string | null;
    })[];
    /** ended processes beyond those listed */ processes_omitted: number;
    /** times not watched, seconds since the start */ gaps: {
      from: number;
      to: number;
      reason: string;
      t: number;
    }[];
    /** those that are not listed */ gaps_omitted: number;
    /** what could not be read of the job directory */ problems: string[];
  })[];
  timeline: {
    rss_bytes: {
      window_seconds: number;
      /** the greatest value in each window; null: not measured */ max: (number | null)[];
    };
    cpus: {
      window_seconds: number;
      /** the greatest value in each window; null: not measured */ max: (number | null)[];
    };
    processes: {
      window_seconds: number;
      /** the greatest value in each window; null: not measured */ max: (number | null)[];
    };
  };
  node: {
    host: string;
    os?: string;
    release?: string;
    arch?: string;
    cpus: number | null;
    memory_bytes: number | null;
  } | null;
  /** what failed; null: out of memory */ failed: {
    /** processes that ended with another status than 0, or by a signal */ count: number;
    /** processes of which it is not known how they ended */ unknown: number;
    unknown_reasons: {
      reason: string;
      count: number;
    }[];
    /** of all processes the first that failed, whether anybody minded or not */ first: {
      pid: number;
      name: string;
      start_seconds: number;
      end_seconds: number;
      /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
      /** that killed it */ signal: number | null;
      /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
      /** argv is not all of it */ argv_cut: boolean;
      /** working directory when its program began; null: not known */ cwd: string | null;
    } | null;
    /** what made the command fail: the process that failed first, then its parents up to the command, which is the last; empty: the command did not fail. Of the children of one that failed it is the first to fail after which it started nothing more, else the last whose status it ended with itself */ chain: ({
      pid: number;
      name: string;
      start_seconds: number;
      end_seconds: number;
      /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
      /** that killed it */ signal: number | null;
      /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
      /** argv is not all of it */ argv_cut: boolean;
      /** working directory when its program began; null: not known */ cwd: string | null;
    })[];
  } | null;
  /** of a job over several nodes, what failed first on another one and made the command fail; null: nothing that is known */ failed_elsewhere: {
    node: string;
    /** the process that failed first there, its parents, and the command, which has the pid 0; seconds are since the start of the job */ chain: ({
      pid: number;
      name: string;
      start_seconds: number;
      end_seconds: number;
      /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
      /** that killed it */ signal: number | null;
      /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
      /** argv is not all of it */ argv_cut: boolean;
      /** working directory when its program began; null: not known */ cwd: string | null;
    })[];
  } | null;
  /** trigger rules of the job */ rules: ({
    rule: string;
    /** how often */ fired: number;
    /** in how many of them an action failed */ failed?: number;
    /** the first 1000 times */ firings: ({
      /** since the start of the job, when scry run heard of it */ seconds: number;
      results: ({
        /** its place in the list, from 1 */ action: number;
        service?: string;
        objects: string | null;
        status: number;
        /** the name of the status, if the action failed */ error?: string;
        result: string | null;
      })[];
    })[];
  })[];
  /** of processes, by the service ct_snapshot */ snapshots: {
    /** in the job directory */ file: string;
    seconds: number;
    process: number;
    program: string;
    /** the event that it was taken at; empty: none */ service: string;
    function: string;
    args: string;
    /** the open calls of the thread, the innermost first */ calls: string[];
  }[];
  crashes: {
    pid: number;
    name: string;
    signal: number;
    core_dumped?: boolean;
    /** that it could not use; from 2^63 on, less 2^64 */ address?: number;
    /** what is wrong with that: "stack overflow", "a NULL pointer" */ reason?: string;
    t: number;
    /** core file */ core?: string;
    note?: string;
    frames?: {
      pc: number;
      /** of a function that an interpreter executes, at pc */ language?: "python";
      function?: string;
      file?: string;
      line?: number;
      module?: string;
    }[];
  }[];
  /** of each kind the first and the last ones, 100 at least */ warnings: {
    kind: string;
    note?: string;
    fields?: Record<string, unknown>;
    text: string;
    t: number;
  }[];
  /** kinds of which there were more than are listed, and how many more */ warnings_omitted: {
    /** their note, or where they have none their kind */ kind: string;
    count: number;
  }[];
  recording_off: ({
    from: number;
    to: number | null;
  })[];
  /** recorded functions over all processes, most own time first */ functions: ({
    name: string;
    /** of the source; empty where it is not known */ file: string;
    line: number;
    calls: number;
    /** with the calls in it; of a call inside another of the same function only the outer counts */ total_ns: number;
    /** without the recorded calls in it */ self_ns: number;
    /** of a call */ min_ns: number;
    /** of a call */ max_ns: number;
    /** calls that never ended: they count until the end of the trace */ open: number;
    /** calls that ended by an exception or longjmp */ unwound: number;
    /** calls that were only counted: their time is in total_ns only */ counted: number;
    /** further calls, that were left out to keep the rate (--rate) */ thinned: number;
    /** calls that ended, but the record of that is missing: they count for no time */ end_missing: number;
    /** of calls, those whose records were overwritten or beyond a limit: in no time */ unkept: number;
    /** of total_ns, whether it had a processor is not known: why, see trace.unwatched */ total_unknown_ns: number;
    /** of self_ns, whether it had a processor is not known: why, see trace.unwatched */ self_unknown_ns: number;
    /** of total_ns, on a processor; null: too much is not known */ total_cpu_ns: number | null;
    /** of total_ns, waiting: off the processors by its own will; null: too much is not known */ total_waiting_ns: number | null;
    /** of total_ns, off the processors though it could have run; null: too much is not known */ total_preempted_ns: number | null;
    /** of self_ns, on a processor; null: too much is not known */ self_cpu_ns: number | null;
    /** of self_ns, waiting: off the processors by its own will; null: too much is not known */ self_waiting_ns: number | null;
    /** of self_ns, off the processors though it could have run; null: too much is not known */ self_preempted_ns: number | null;
    /** of programs that use MPI: the same by rank, those that called it */ ranks: {
      rank: number;
      /** which MPI_COMM_WORLD of the job, from 0 */ world: number;
      calls: number;
      total_ns: number;
      self_ns: number;
    }[];
  })[];
  /** who calls whom, most time first */ calls: ({
    /** null: none recorded */ caller: string | null;
    function: string;
    calls: number;
    total_ns: number;
  })[];
  /** where functions are called from, at most 100, most time first */ call_sites: {
    function: string;
    /** the function that calls; "": not known */ from_function: string;
    /** "": not known */ from_file: string;
    from_line: number;
    from_module: string;
    /** the return address, as the file of the module has it */ from_offset: number;
    calls: number;
    /** of calls inside each other from one place, the outermost */ total_ns: number;
  }[];
  /** the ten that took longest, at most three of a function */ slowest_calls: ({
    name: string;
    file: string;
    line: number;
    duration_ns: number;
    /** since the job's start */ start_seconds: number;
    pid: number;
    thread: number;
    how: "returned" | "unwound" | "open";
    /** as text; null: not recorded */ arguments: string | null;
    /** as text; null: not recorded */ result: string | null;
    /** where a call of MPI came from */ where: string | null;
    /** of MPI */ rank: number | null;
    /** which MPI_COMM_WORLD of the job its rank is of, from 0 */ world: number | null;
    /** of the duration, on a processor; null: that is not known */ cpu_ns: number | null;
    /** of the duration, waiting: off the processors by its own will; null: that is not known */ waiting_ns: number | null;
    /** of the duration, off the processors though it could have run; null: that is not known */ preempted_ns: number | null;
  })[];
  /** of traced threads that got a fatal signal */ crash_calls: {
    pid: number;
    thread: number;
    signal: number;
    address: number;
    /** since the job's start */ seconds: number;
    /** innermost first */ open_calls: string[];
    /** that ended before, the latest first */ last_calls: string[];
  }[];
  /** what tracing recorded and cost; all 0 where nothing was traced */ trace: {
    /** recorded */ events: number;
    /** that found no room */ discarded: number;
    /** how often a thread waited for room in vain (--overflow wait) */ waits_ran_out: number;
    /** how many of discarded were dropped after such a wait */ waits_dropped: number;
    /** recorded, but given way to later ones in the flight recorder */ overwritten: number;
    /** on disk */ bytes: number;
    /** estimated time that recording took in the traced threads; at most what the job used of the processors, and, where nothing is missing, what its functions took */ cost_seconds: number;
    /** threads that there was no place for */ threads_omitted: number;
    /** calls of functions that there was no place for */ functions_omitted: number;
    /** calls that were deeper than can be followed */ too_deep: number;
    /** that have a trace */ processes: number;
    /** false: only a part was read */ complete: boolean;
    /** calls that were left out to keep the rate (--rate) */ thinned: number;
    /** shorter calls were left out (--min-time); 0: none */ min_time_ns: number;
    /** deeper calls were left out (--max-depth); 0: none */ max_depth: number;
    problems: string[];
    /** the problems with what is known of each; said: only a text */ notes: {
      kind: string;
      note: string;
      fields: Record<string, unknown>;
      text: string;
    }[];
    /** programs of which it is not known when their threads had a processor, or not for all of the time, and why */ unwatched: string[];
  };
  /** programs that use MPI; null: none */ mpi: {
    ranks: ({
      rank: number;
      node: string;
      pid: number;
      program: string;
      /** openmpi or mpich */ library: string;
      /** 0 MPI_THREAD_SINGLE to 3 MPI_THREAD_MULTIPLE; -1: not known */ thread_level: number;
      /** ended, running, died without MPI_Finalize, called MPI_Abort, never called MPI_Init, ended inside of MPI_Init, not counted to the end */ state: string;
      /** how its process ended; null: it runs, or nobody saw it */ end: {
        /** since the start of the job */ seconds: number;
        signal: number | null;
        exit_code: number | null;
        /** of its MPI_COMM_WORLD the first that ended, and without MPI_Finalize */ first: boolean;
      } | null;
      /** its program was started by MPI_Comm_spawn */ spawned: boolean;
      abort_code: number | null;
      /** why counting stopped */ fault: string | null;
      /** calls, requests and bytes that found no room */ omitted: number;
      /** receives given up by MPI_Request_free: what they got is in no number */ receives_freed: number;
      /** how often counting began anew: what was before is in no number */ resets: number;
      /** when, the last time: after MPI_Init; null: never */ reset_ns: number | null;
      /** between MPI_Init and MPI_Finalize, in which nothing was counted; but before a reset */ paused_ns: number;
      init_ns: number;
      finalize_ns: number;
      /** since 1970 */ started_seconds: number;
      calls: {
        name: string;
        /** p2p, completion, collective, onesided, io, comm, type, group, info, env, other, tool */ class: string;
        calls: number;
        /** as the arguments say: count times size of the datatype */ bytes: number;
        /** transferred */ sent_bytes: number;
        received_bytes: number;
        total_ns: number;
        min_ns: number;
        max_ns: number;
        /** of calls, those of threads that are not the rank */ other_threads_calls: number;
        /** of total_ns */ other_threads_ns: number;
        /** further calls, that had not ended: in total_ns only */ open: number;
        /** of total_ns */ open_ns: number;
      }[];
      /** non-blocking operations, from their begin to their completion */ spans: {
        name: string;
        /** p2p, completion, collective, onesided, io, comm, type, group, info, env, other, tool */ class: string;
        calls: number;
        /** as the arguments say: count times size of the datatype */ bytes: number;
        /** transferred */ sent_bytes: number;
        received_bytes: number;
        total_ns: number;
        min_ns: number;
        max_ns: number;
        /** of calls, those of threads that are not the rank */ other_threads_calls: number;
        /** of total_ns */ other_threads_ns: number;
        /** further calls, that had not ended: in total_ns only */ open: number;
        /** of total_ns */ open_ns: number;
      }[];
      threads: {
        tid: number;
        /** it called MPI_Init */ is_rank: boolean;
        name: string;
        /** calls that returned another than MPI_SUCCESS */ errors: number;
        time: {
          /** computation and communication, to the nanosecond */ total_ns: number;
          computation_ns: number;
          communication_ns: number;
          /** intervals of communication */ count: number;
          computation_min_ns: number;
          computation_max_ns: number;
          communication_min_ns: number;
          communication_max_ns: number;
          /** of a running program: of the total, what goes on and has no length yet */ computation_open_ns: number;
          communication_open_ns: number;
        };
        blocking: {
          /** computation and communication, to the nanosecond */ total_ns: number;
          computation_ns: number;
          communication_ns: number;
          /** intervals of communication */ count: number;
          computation_min_ns: number;
          computation_max_ns: number;
          communication_min_ns: number;
          communication_max_ns: number;
          /** of a running program: of the total, what goes on and has no length yet */ computation_open_ns: number;
          communication_open_ns: number;
        };
      }[];
      /** from MPI_Init's return to MPI_Finalize's entry */ run_ns: number;
      computation_ns: number;
      /** inside any outermost call */ communication_ns: number;
      /** of communication */ share: number;
      /** which MPI_COMM_WORLD of the job, from 0 */ world: number;
      /** inside blocking calls only */ blocking: {
        /** computation and communication, to the nanosecond */ total_ns: number;
        computation_ns: number;
        communication_ns: number;
        /** intervals of communication */ count: number;
        computation_min_ns: number;
        computation_max_ns: number;
        communication_min_ns: number;
        communication_max_ns: number;
        /** of a running program: of the total, what goes on and has no length yet */ computation_open_ns: number;
        communication_open_ns: number;
      };
      time: {
        /** computation and communication, to the nanosecond */ total_ns: number;
        computation_ns: number;
        communication_ns: number;
        /** intervals of communication */ count: number;
        computation_min_ns: number;
        computation_max_ns: number;
        communication_min_ns: number;
        communication_max_ns: number;
        /** of a running program: of the total, what goes on and has no length yet */ computation_open_ns: number;
        communication_open_ns: number;
      };
    })[];
    /** of all ranks */ calls: {
      name: string;
      /** p2p, completion, collective, onesided, io, comm, type, group, info, env, other, tool */ class: string;
      calls: number;
      /** as the arguments say: count times size of the datatype */ bytes: number;
      /** transferred */ sent_bytes: number;
      received_bytes: number;
      total_ns: number;
      min_ns: number;
      max_ns: number;
      /** of calls, those of threads that are not the rank */ other_threads_calls: number;
      /** of total_ns */ other_threads_ns: number;
      /** further calls, that had not ended: in total_ns only */ open: number;
      /** of total_ns */ open_ns: number;
    }[];
    spans: {
      name: string;
      /** p2p, completion, collective, onesided, io, comm, type, group, info, env, other, tool */ class: string;
      calls: number;
      /** as the arguments say: count times size of the datatype */ bytes: number;
      /** transferred */ sent_bytes: number;
      received_bytes: number;
      total_ns: number;
      min_ns: number;
      max_ns: number;
      /** of calls, those of threads that are not the rank */ other_threads_calls: number;
      /** of total_ns */ other_threads_ns: number;
      /** further calls, that had not ended: in total_ns only */ open: number;
      /** of total_ns */ open_ns: number;
    }[];
    time: {
      /** computation and communication, to the nanosecond */ total_ns: number;
      computation_ns: number;
      communication_ns: number;
      /** intervals of communication */ count: number;
      computation_min_ns: number;
      computation_max_ns: number;
      communication_min_ns: number;
      communication_max_ns: number;
      /** of a running program: of the total, what goes on and has no length yet */ computation_open_ns: number;
      communication_open_ns: number;
    };
    blocking: {
      /** computation and communication, to the nanosecond */ total_ns: number;
      computation_ns: number;
      communication_ns: number;
      /** intervals of communication */ count: number;
      computation_min_ns: number;
      computation_max_ns: number;
      communication_min_ns: number;
      communication_max_ns: number;
      /** of a running program: of the total, what goes on and has no length yet */ computation_open_ns: number;
      communication_open_ns: number;
    };
    sites: ({
      /** of the call */ name: string;
      function: string | null;
      file: string | null;
      line: number | null;
      module: string;
      /** in the module, of the return address */ offset: number;
      /** how many called from there */ ranks: number;
      calls: number;
      bytes: number;
      total_ns: number;
      min_ns: number;
      max_ns: number;
      /** of calls, those of threads that are not the rank */ other_threads_calls: number;
      /** of total_ns */ other_threads_ns: number;
      /** further calls, that had not ended: in total_ns only */ open: number;
      /** of total_ns */ open_ns: number;
      /** the ranks that call from there */ by_rank: {
        /** -1: it has none (MPI_Session_init) */ rank: number;
        /** which MPI_COMM_WORLD of the job, from 0 */ world: number;
        calls: number;
        total_ns: number;
        open_ns: number;
      }[];
    })[];
    matrix: ({
      world: number;
      /** rank of MPI_COMM_WORLD; null: of another one */ from: number | null;
      to: number | null;
      /** of the user, as the sender counted */ messages: number;
      bytes: number;
      /** as the receiver counted */ received_messages: number;
      received_bytes: number;
      /** operations of `from` on `to` */ one_sided: number;
      one_sided_bytes: number;
    })[];
    communicators: ({
      name: string;
      /** intra, inter, window, file */ kind: string;
      size: number;
      remote_size: number;
      /** of MPI_COMM_WORLD; null: all */ ranks: number[] | null;
      /** ranks that have it */ seen_by: number;
      collectives: number;
      /** of the user */ messages: number;
      bytes: number;
      collective_bytes: number;
      collective_sent_bytes: number;
      collective_received_bytes: number;
      /** of one-sided operations on a window, put or got */ one_sided_bytes: number;
    })[];
    /** functions of MPI that the program itself has, a tool that is linked into it: its calls are counted, not what the program calls of it */ in_own_functions: {
      name: string;
      /** made in it */ calls: number;
    }[];
    /** files of statistics that could not be read */ unreadable: number;
    /** calls of threads that are not the rank; in calls and sites, but in no time */ other_threads: {
      calls: number;
      total_ns: number;
    };
  } | null;
  /** messages out of the traces of the ranks (scry run --mpi trace); null: there are none */ mpi_trace: {
    /** matched from send to receive */ messages: number;
    /** of them */ bytes: number;
    /** operations */ collectives: number;
    /** sends without a receive */ unreceived: number;
    /** receives without a send */ unsent: number;
    /** sends whose receive cannot be told, for records are missing */ ambiguous_sent: number;
    ambiguous_received: number;
    /** sends and receives whose other rank has no trace here */ other_programs: number;
    /** records beyond a limit */ not_looked_at: number;
    /** from the begin of the send to the end of the receive */ latency_min_ns: number | null;
    latency_total_ns: number;
    /** the common time line */ clocks: {
      hosts: ({
        host: string;
        /** how the offset was found */ how: "reference" | "both_ways" | "once" | "one_way" | "as_it_is" | "known";
        start_seconds: number;
        /** added to its times at start_seconds */ start_offset_ns: number;
        end_seconds: number;
        end_offset_ns: number;
        /** so far the offsets may be off; null: nothing bounds that */ bound_ns: number | null;
      })[];
      /** messages, by the hosts' own clocks */ arrived_too_early: number;
      /** messages that the offsets left so, moved one by one */ corrected: number;
      largest_correction_ns: number;
    };
    ranks: ({
      /** which MPI_COMM_WORLD of the job, from 0 */ program: number;
      rank: number;
      node: string;
      pid: number;
      received: number;
      collectives: number;
      /** its trace begins before MPI_Init has returned */ from_start: boolean;
      missing_records: number;
      /** the call of MPI in which its trace ends: it was killed there, or is in it still */ ends_in: {
        call: string;
        where: string;
        since_seconds: number;
      } | null;
      sent: number;
      /** it begins so, but calls went by later that were not traced */ interrupted: boolean;
    })[];
    /** by total time */ waits: ({
      kind: "late_sender" | "late_receiver" | "collective" | "root" | "members";
      /** the call that waited */ waits: {
        call: string;
        /** function and line; empty if not known */ where: string;
      };
      /** the call that it waited for */ for: {
        call: string;
        /** function and line; empty if not known */ where: string;
      };
      count: number;
      total_ns: number;
      max_ns: number;
      /** the rank that was waited for most */ for_rank: number;
      for_rank_ns: number;
    })[];
    /** time in blocking calls that are judged: they waited as long as "waits" says, or not */ waits_judged_ns: number;
    /** calls of which it cannot be said whether they waited for another rank */ waits_not_judged: {
      call: string;
      /** false: it looked in vain (MPI_Test, MPI_Iprobe ...) */ blocks: boolean;
      count: number;
      total_ns: number;
    }[];
    slowest: {
      from: number;
      to: number;
      comm: string;
      tag: number;
      bytes: number;
      sent_seconds: number;
      received_seconds: number;
      latency_ns: number;
      /** the call that posted it */ send: {
        call: string;
        /** function and line; empty if not known */ where: string;
      };
      /** the call that completed it */ receive: {
        call: string;
        /** function and line; empty if not known */ where: string;
      };
    }[];
    /** at most 20, those with the most first */ channels_with_unmatched: {
      program: number;
      comm: string;
      from: number;
      to: number;
      tag: number;
      unreceived: number;
      unsent: number;
      ambiguous_sent: number;
      ambiguous_received: number;
    }[];
    /** how many there are */ channels_with_unmatched_count: number;
  } | null;
  scripts: {
    /** scripts that ended, of most time first */ files: {
      file: string;
      /** processes that ran it and ended */ count: number;
      failed: number;
      seconds: number;
    }[];
    /** of all runs together, of most time first */ lines: ({
      file: string;
      line: number | null;
      /** as it is written, not expanded; null: not known */ command: string | null;
      /** 0: not counted, it was only seen */ count: number;
      failed: number;
      seconds: number;
    })[];
    /** where each process was seen last: records script_line */ places: unknown[];
    /** the last ones: records command_failed */ failed_commands: unknown[];
    failed_commands_total: number;
    /** that nothing caught, the last ones: records python_exception */ exceptions: unknown[];
    exceptions_total: number;
    /** exceptions that were caught, the last ones */ caught: unknown[];
    caught_total: number;
    /** of most time of their own first */ python_functions: ({
      function: string;
      file: string;
      line: number | null;
      calls: number;
      total_ns: number;
      self_ns: number;
    })[];
    python_calls: number;
  };
  logs: {
    /** lines that matched a pattern of this level */ error_lines: number;
    warning_lines: number;
    info_lines: number;
    debug_lines: number;
    patterns: ({
      pattern: string;
      level: "error" | "warning" | "info" | "debug";
      /** that matched, also those not listed */ lines: number;
      /** when the last one was seen */ last_seconds: number;
    })[];
    /** the last ones: records log */ errors: unknown[];
    /** the last ones of any level: records log */ lines: unknown[];
    /** of each source the last: records progress */ progress: unknown[];
    /** what became of each last: records log_file */ files: unknown[];
  };
  health: {
    /** that were measured */ curves: ({
      name: "cpu" | "iowait" | "steal" | "memory" | "cgroup_memory" | "swap_bytes" | "pressure_cpu" | "pressure_memory" | "pressure_io" | "disk_read_bytes" | "disk_written_bytes" | "received_bytes" | "sent_bytes";
      /** the greatest value; shares are from 0 to 1, of disks and network bytes a second */ most: number;
      window_seconds: number;
      /** the greatest value in each window; null: not measured */ max: (number | null)[];
    })[];
    /** with the least left first */ filesystems: ({
      path: string;
      total_bytes: number | null;
      least_free_bytes: number | null;
      /** when that was */ least_free_at: number;
      /** as last seen */ free_bytes: number | null;
      inodes: number | null;
      least_free_inodes: number | null;
      free_inodes: number | null;
    })[];
    /** processes of the control group that the kernel killed for lack of memory */ oom_kills: number;
  };
  /** ended processes by name */ commands: {
    name: string;
    count: number;
    cpu_seconds: number;
    peak_rss_bytes: number;
  }[];
  /** false: those too short to be sampled are missing in processes and process_count */ processes_listed_singly: boolean;
  processes: ({
    pid: number;
    /** parent, as last seen */ ppid: number;
    /** of one on another node than the job's: which; null: the job's own */ node: string | null;
    /** the kernel's name of the command, at most 15 bytes */ name: string;
    /** since the job's start */ start_seconds: number;
    /** null: alive, as far as is known */ end_seconds: number | null;
    cpu_seconds: number;
    /** 0: too short to be sampled */ peak_rss_bytes: number;
    /** at most at once */ threads: number;
    /** exit status; null: not known, still running, or killed by a signal */ exit_code: number | null;
    /** that killed it */ signal: number | null;
    /** who told exit_code or signal: the kernel's process events, a descriptor held on the process, scry run as its parent */ status_source: "event" | "pidfd" | "wait" | null;
    /** why it is not known how it ended; null: it is, or the process lives */ status_unknown: string | null;
    /** command line when its program began, secrets as ***; of a child that executed nothing, its parent's; null: not known */ argv: string[] | null;
    /** argv is not all of it */ argv_cut: boolean;
    /** working directory when its program began; null: not known */ cwd: string | null;
  })[];
  /** ended processes beyond those listed */ processes_omitted: number;
  /** times not watched, seconds since the start */ gaps: {
    from: number;
    to: number;
    reason: string;
    t: number;
  }[];
  /** those that are not listed */ gaps_omitted: number;
  /** what could not be read of the job directory */ problems: string[];
};

/** scry report --diff --json */
export type ReportDiff = {
  a: {
    id: string;
    status: string;
    exit_code: number;
  };
  b: {
    id: string;
    status: string;
    exit_code: number;
  };
  values: ({
    name: "wall_seconds" | "cpu_seconds" | "peak_rss_bytes" | "peak_tree_rss_bytes" | "process_count" | "threads_at_once";
    a: number;
    b: number;
    /** b / a; null when a is 0 */ ratio: number | null;
  })[];
  /** the hottest functions of both, those that changed most first */ functions: ({
    name: string;
    file: string;
    a: {
      name: string;
      /** of the source; empty where it is not known */ file: string;
      line: number;
      calls: number;
      /** with the calls in it; of a call inside another of the same function only the outer counts */ total_ns: number;
      /** without the recorded calls in it */ self_ns: number;
      /** of a call */ min_ns: number;
      /** of a call */ max_ns: number;
      /** calls that never ended: they count until the end of the trace */ open: number;
      /** calls that ended by an exception or longjmp */ unwound: number;
      /** calls that were only counted: their time is in total_ns only */ counted: number;
      /** further calls, that were left out to keep the rate (--rate) */ thinned: number;
      /** calls that ended, but the record of that is missing: they count for no time */ end_missing: number;
      /** of calls, those whose records were overwritten or beyond a limit: in no time */ unkept: number;
      /** of total_ns, whether it had a processor is not known: why, see trace.unwatched */ total_unknown_ns: number;
      /** of self_ns, whether it had a processor is not known: why, see trace.unwatched */ self_unknown_ns: number;
      /** of total_ns, on a processor; null: too much is not known */ total_cpu_ns: number | null;
      /** of total_ns, waiting: off the processors by its own will; null: too much is not known */ total_waiting_ns: number | null;
      /** of total_ns, off the processors though it could have run; null: too much is not known */ total_preempted_ns: number | null;
      /** of self_ns, on a processor; null: too much is not known */ self_cpu_ns: number | null;
      /** of self_ns, waiting: off the processors by its own will; null: too much is not known */ self_waiting_ns: number | null;
      /** of self_ns, off the processors though it could have run; null: too much is not known */ self_preempted_ns: number | null;
    } | null;
    b: {
      name: string;
      /** of the source; empty where it is not known */ file: string;
      line: number;
      calls: number;
      /** with the calls in it; of a call inside another of the same function only the outer counts */ total_ns: number;
      /** without the recorded calls in it */ self_ns: number;
      /** of a call */ min_ns: number;
      /** of a call */ max_ns: number;
      /** calls that never ended: they count until the end of the trace */ open: number;
      /** calls that ended by an exception or longjmp */ unwound: number;
      /** calls that were only counted: their time is in total_ns only */ counted: number;
      /** further calls, that were left out to keep the rate (--rate) */ thinned: number;
      /** calls that ended, but the record of that is missing: they count for no time */ end_missing: number;
      /** of calls, those whose records were overwritten or beyond a limit: in no time */ unkept: number;
      /** of total_ns, whether it had a processor is not known: why, see trace.unwatched */ total_unknown_ns: number;
      /** of self_ns, whether it had a processor is not known: why, see trace.unwatched */ self_unknown_ns: number;
      /** of total_ns, on a processor; null: too much is not known */ total_cpu_ns: number | null;
      /** of total_ns, waiting: off the processors by its own will; null: too much is not known */ total_waiting_ns: number | null;
      /** of total_ns, off the processors though it could have run; null: too much is not known */ total_preempted_ns: number | null;
      /** of self_ns, on a processor; null: too much is not known */ self_cpu_ns: number | null;
      /** of self_ns, waiting: off the processors by its own will; null: too much is not known */ self_waiting_ns: number | null;
      /** of self_ns, off the processors though it could have run; null: too much is not known */ self_preempted_ns: number | null;
    } | null;
  })[];
  /** null: neither ran an MPI program */ mpi: {
    values: ({
      name: "ranks" | "run_ns" | "communication_ns" | "share" | "messages" | "bytes";
      a: number;
      b: number;
      /** b / a; null when a is 0 */ ratio: number | null;
    })[];
    calls: {
      name: string;
      a: {
        calls: number;
        /** of all ranks together */ total_ns: number;
        /** by the arguments */ bytes: number;
      };
      b: {
        calls: number;
        /** of all ranks together */ total_ns: number;
        /** by the arguments */ bytes: number;
      };
    }[];
  } | null;
};

/** scry why --json */
export type Why = {
  id: string;
  /** of the job */ state: string;
  mpi: {
    /** gravest first */ findings: ({
      kind: "mismatch" | "deadlock" | "dead_peer" | "unmatched" | "polls" | "straggler" | "died";
      text: string;
      /** who make it; of a circle in its order */ ranks: number[];
      /** who wait for these */ victims: number[];
    })[];
    ranks: ({
      rank: number;
      node: string | null;
      pid: number;
      state: "computes" | "moves" | "polls" | "waits" | "io" | "stopped" | "starts" | "ended" | "died" | "blocked";
      stuck: boolean;
      /** the rank that goes on, and for which it waits over any number of others */ waits_in_the_end_for: number | null;
      /** where it computes, of ranks that others wait for */ where: string | null;
      /** which function and line of a Python program called MPI */ python: string | null;
      threads: ({
        tid: number;
        is_rank: boolean;
        state: "computes" | "moves" | "polls" | "waits" | "io" | "stopped" | "starts" | "ended" | "died" | "blocked";
        /** can never go on */ stuck: boolean;
        /** waits or polls, and had no processor while it was looked at: what it waits for may have come */ starved: boolean;
        /** of one that a rule or a tool of scry has stopped */ held_by: string | null;
        /** that it is in, or polls with */ call: string | null;
        /** since when it is in that, or computes; of one that polls: for how long nothing came of it */ seconds: number;
        peer: number | string | null;
        tag: number | string | null;
        communicator: string | null;
        /** sequence number on the communicator */ collective: number | null;
        /** in the file */ offset: number | null;
        at: {
          function: string | null;
          file: string | null;
          line: number | null;
          module: string | null;
          offset: number;
        } | null;
        /** one of waits_for is enough */ any: boolean;
        /** how often it polls; null: it does not */ polls_per_second: number | null;
        waits_for: ({
          /** what it waits for the others to do */ reason: "send" | "receive" | "collective" | "target" | "finalize" | "post" | "complete";
          call: string;
          /** rank, or any */ peer: number | string | null;
          tag: number | string | null;
          communicator: string | null;
          /** all of for_ranks are needed; else any of them would do */ all: boolean;
          /** may have come true already: one of several requests, or a send that is perhaps buffered */ maybe: boolean;
          for_ranks: number[];
          /** messages from there that were sent and not received: of another tag */ unreceived: number;
        })[];
        text: string;
      })[];
      /** of a process that was looked at: those that have not called MPI, but for the MPI library's own */ other_threads: {
        tid: number;
        name: string;
        /** may go on, and call MPI if it is initialised for that */ may_act: boolean;
        /** what it waits for */ text: string;
      }[];
    })[];
    waiting: number;
    /** ranks that poll */ polling: number;
    computing: number;
    stuck: number;
    /** for so long no rank has begun or ended a call; 0: some did */ still_seconds: number;
  } | null;
  /** of a running job, of processes that are no ranks: threads that wait for each other in a circle */ deadlocks: ({
    pid: number;
    name: string;
    text: string;
    /** in the order of the circle: each waits for the next */ threads: ({
      tid: number;
      name: string;
      text: string;
      /** from where in the program it came to that */ function: string | null;
      file: string | null;
      line: number | null;
      module: string | null;
    })[];
  })[];
  /** when the job last recorded that its ranks stood still, and why they did then (scry run --mpi-stall) */ stall: {
    /** seconds after the start */ at: number;
    /** for so long none had begun or ended a call */ seconds: number;
    text: string;
  } | null;
  /** of a running job, those that are no ranks */ processes: ({
    pid: number;
    name: string;
    threads: ({
      tid: number;
      name: string;
      /** the kernel's letter */ state: string;
      syscall: string | null;
      fd: number | null;
      text: string;
      /** processes, or threads of this one */ waits_for: number[];
      /** where in a Python program, in its own code if possible */ python: {
        function: string;
        file: string;
        line: number | null;
      } | null;
    })[];
  })[];
  /** why something is not as new or as complete as it could be */ note: string | null;
};

/** scry snapshot --json */
export type Snapshot = {
  /** of the job */ id: string;
  /** how long it took; nothing is stopped meanwhile */ seconds: number;
  /** the job's nodes that were asked */ hosts: ({
    /** as the launcher named it; "": where the job began */ name: string;
    /** of the monitor; u_0: it could not be reached */ token: string;
    /** why nothing is known of it */ problem: string | null;
  })[];
  /** of the job: ranks first, then the others; those that were not asked for have no threads */ processes: ({
    pid: number;
    ppid: number;
    name: string;
    host: string;
    /** of the monitor, for scry omis */ token: string;
    /** tells the ranks of several MPI programs apart */ mpi_job: string | null;
    /** -1: none */ rank: number;
    /** of its MPI program; -1: not known */ ranks: number;
    /** that were read */ threads: number;
    /** why not all messages of MPI to it are known (--queues) */ queue_note: string | null;
    /** why nothing, or not all, is known of it */ problem: string | null;
  })[];
  /** of the tree of stacks, each behind its parent: a function with its line */ nodes: ({
    number: number;
    /** its number; 0: here the threads began */ parent: number;
    /** note: function says why nothing is known there */ language: "native" | "python" | "note";
    function: string | null;
    file: string | null;
    line: number | null;
    module: string | null;
    /** here, or in a function that was called from here */ threads: number;
    /** of these, those that had a processor */ running: number;
    /** of these, those that are in this function itself */ innermost: number;
    /** whose threads these are: their places in the list of processes, from 0 */ processes: number[];
    /** how many threads each of these has here */ process_threads: number[];
    /** arguments and locals (--values), each with all its values */ values: {
      /** "": value says why nothing is known of the variables */ name: string;
      type: string;
      /** as text; <not available>, <optimised out>: it is not known */ value: string;
      /** that have this value */ threads: number;
      /** whose threads these are: their places in the list of processes, from 0 */ processes: number[];
    }[];
  })[];
  /** requests of MPI that are not completed; null: not asked for (--queues) */ operations: ({
    /** its place in the list of processes, from 0 */ process: number;
    /** that began it */ call: string;
    kind: "send" | "receive" | "other";
    /** inactive: a persistent request that is not started */ state: "active" | "inactive" | "freed";
    /** a world rank; -1: any, -2: MPI_PROC_NULL, -3: none, -4: root, -5: of another MPI program */ peer: number;
    /** -1: any, -3: none */ tag: number;
    /** the communicator's number in that process; 0: MPI_COMM_WORLD; -1: not known */ comm: number;
    bytes: number;
    /** since it was begun */ seconds: number;
  })[] | null;
  /** of MPI that no receive has taken; null: not asked for (--queues) */ messages: ({
    /** that it was sent to: its place in the list, from 0 */ process: number;
    /** the world rank that sent it */ rank: number;
    tag: number;
    /** the communicator's number in the process; 0: MPI_COMM_WORLD; -1: not known */ comm: number;
    /** -1: not known any more */ bytes: number;
    /** since it was sent */ seconds: number;
    /** why it is not certain */ doubts: string | null;
  })[] | null;
  /** that processes have open; null: not asked for (--files) */ files: ({
    /** its place in the list of processes, from 0 */ process: number;
    fd: number;
    kind: "file" | "directory" | "device" | "pipe" | "socket" | "memory" | "other";
    /** of another kind: what the kernel calls it */ path: string | null;
    /** words of read, write, append, nonblock, direct, sync */ flags: string;
    /** where it is read or written next; -1: it has none */ offset: number;
    /** as the node knows it without asking a file system; -1: not known */ size: number;
  })[] | null;
};

/** scry site --json */
export type Site = {
  /** the database */ record: string;
  /** seconds since 1970 */ time: number;
  /** jobs that ended longer ago are left out */ since_seconds: number;
  jobs: number;
  states: {
    state: string;
    jobs: number;
  }[];
  /** by name */ nodes: ({
    node: string;
    /** all, also those that are over */ jobs: number;
    running: number;
    /** lost, unreachable, unwatched */ away: number;
    /** failed, crashed, killed */ wrong: number;
    /** of processes, in all jobs */ crashes: number;
    /** processes that the kernel killed for memory */ oom_kills: number;
    cpus: number | null;
    /** that its running jobs asked for */ reserved_cpus: number;
    /** this and the next: of the last 15 minutes, as its running jobs saw it; the most */ load: number | null;
    memory_bytes: number | null;
    /** the least */ available_bytes: number | null;
    swap_used_bytes: number | null;
    /** share of the time in which tasks waited for memory */ memory_pressure: number | null;
    /** share of the time in which processors waited for disks */ iowait: number | null;
    /** names of rules */ problems: string[];
  })[];
  /** most CPU time first */ users: ({
    owner: string;
    jobs: number;
    running: number;
    /** lost, unreachable, unwatched */ away: number;
    /** failed, crashed, killed */ wrong: number;
    cpu_seconds: number;
    /** processors that jobs asked for times their time; of those that asked for a number */ reserved_seconds: number;
    /** CPU time of these jobs, of reserved_seconds */ used: number | null;
    /** of their jobs */ problems: number;
  })[];
  /** by rule */ problems: ({
    /** its name, see scry-site(1) */ rule: string;
    node: string;
    /** null: it is the node's problem */ job: {
      owner: string;
      id: string;
      name: string;
      state: string;
      batch_id: string | null;
      /** seconds since 1970 */ started: number | null;
      wall_seconds: number | null;
      cpu_seconds: number;
      cpus_asked: number | null;
      /** processors used in the last 15 minutes */ recent_cpus: number | null;
      memory_used_bytes: number | null;
      memory_asked_bytes: number | null;
      progress: number | null;
      warnings: number;
      last_warning: string | null;
    } | null;
    /** the figure that says so */ value: number;
    /** what it is compared with */ of: number | null;
    /** of both */ unit: string;
    /** the reason, with its figures */ text: string;
    advice: string;
  })[];
};

/** scry task ls --json */
export type Tasks = {
  /** newest first */ tasks: ({
    id: string;
    name: string;
    program: string;
    processes: number;
    /** of tasks over numbers of processes */ series: string | null;
    state: "draft" | "queued" | "building" | "running" | "gathering" | "done" | "failed" | "cancelled";
    error: {
      /** start, build, run; time, memory, space: a limit */ kind: string;
      text: string;
    } | null;
    /** since 1970, as all times here */ created_seconds: number;
    queued_seconds: number | null;
    began_seconds: number | null;
    ended_seconds: number | null;
    /** runs that ended */ runs_done: number;
    runs_wanted: number;
    /** of the phase that it is in, 0 to 1; null: not known */ progress: number | null;
    /** estimated, of this phase; null: not known */ left_seconds: number | null;
    /** of the disk, with all runs, when it ended; null: not known, or very many files */ space_bytes: number | null;
  })[];
};

/** scry task show --json */
export type Task = {
  id: string;
  name: string;
  program: string;
  processes: number;
  /** of tasks over numbers of processes */ series: string | null;
  state: "draft" | "queued" | "building" | "running" | "gathering" | "done" | "failed" | "cancelled";
  error: {
    /** start, build, run; time, memory, space: a limit */ kind: string;
    text: string;
  } | null;
  /** since 1970, as all times here */ created_seconds: number;
  queued_seconds: number | null;
  began_seconds: number | null;
  ended_seconds: number | null;
  /** runs that ended */ runs_done: number;
  runs_wanted: number;
  /** of the phase that it is in, 0 to 1; null: not known */ progress: number | null;
  /** estimated, of this phase; null: not known */ left_seconds: number | null;
  /** of the disk, with all runs, when it ended; null: not known, or very many files */ space_bytes: number | null;
  phases: ({
    phase: "build" | "run" | "gather";
    run: number;
    began_seconds: number | null;
    ended_seconds: number | null;
    progress: number | null;
    /** estimated, while it lasts */ left_seconds: number | null;
  })[];
  runs: ({
    run: number;
    state: "running" | "done" | "failed" | "cancelled";
    /** its id; null: it has not begun */ job: string | null;
    directory: string;
    began_seconds: number | null;
    ended_seconds: number | null;
    /** from the start of the command to its end */ seconds: number | null;
    exit_code: number | null;
    signal: number | null;
  })[];
  /** task.json: what was asked for */ task: Record<string, unknown>;
};

/** scry task scaling --json */
export type TaskScaling = {
  /** by their numbers of processes */ tasks: ({
    id: string;
    name: string;
    processes: number;
    /** that ended well */ runs: number;
    /** the median of these; null: there is none */ seconds: number | null;
    /** against the first with seconds */ speedup: number | null;
    /** speed-up for each process more */ efficiency: number | null;
  })[];
};

/** scry watch --json, spool/records.jsonl */
export type JobRecord = {
  /** The first record: what the file is. Its job and node are those of all records. */ type: "spool";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  format: "scry-spool";
  version: number;
} | {
  /** What the node is; once. */ type: "node";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  host: string;
  os: string;
  release: string;
  arch: string;
  cpus: number | null;
  memory_bytes: number | null;
} | {
  /** Whether processes that are too short to be sampled are listed. */ type: "method";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  /** processes too short to be sampled are listed one by one */ singly: boolean;
  /** why they are not */ reason: string;
} | {
  /** The settings that scry run was given. */ type: "tracing";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  settings: Record<string, unknown>;
} | {
  /** The command is a script. */ type: "script";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  path: string;
} | {
  /** The agent cannot be in the command, and what can be done about it. */ type: "untraced";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  text: string;
} | {
  /** A setting that scry set changed, or would have. */ type: "setting";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  key: string;
  value: string;
  taken: boolean;
} | {
  /** Somebody who speaks with the job through a broker changed something, or was refused. Of refusals at most one a second. */ type: "request";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  /** the name of the key */ who: string;
  /** of the key */ serial: string;
  /** at most 4096 bytes of it */ request: string;
  /** OMIS_OK, or the first error */ status: string;
  /** it was refused */ why: string;
} | {
  /** A process was first seen, or has a new name or command. */ type: "process";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  ppid: number;
  /** seconds since the start of the job */ start: number;
  name: string;
  argv?: string[];
  /** there is more of argv */ argv_cut?: boolean;
  cwd?: string;
} | {
  /** A process ended. */ type: "process_end";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  ppid: number;
  /** seconds since the start of the job */ start: number;
  name: string;
  argv?: string[];
  /** there is more of argv */ argv_cut?: boolean;
  cwd?: string;
  /** seconds since the start of the job */ end: number;
  cpu_ns: number;
  /** the most at once */ threads: number;
  peak_rss: number;
  /** as of wait(2); null: unknown */ status: number | null;
  /** where the status is from */ source?: "event" | "pidfd" | "wait";
  /** it is unknown */ why?: string;
} | {
  /** A process that was none of the job's; the maxima without it. */ type: "withdrawn";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  peak_processes: number;
  peak_threads: number;
} | {
  /** Figures, at intervals. */ type: "sample";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  /** the job's processes together */ tree: {
    processes: number;
    threads: number;
    rss: number;
    /** of all processes until now, of those that have ended, too */ cpu_ns: number;
    started: number;
    ended: number;
    peak_processes: number;
    peak_threads: number;
  };
  /** the node */ system?: {
    load: number;
    run_queue: number | null;
    /** tasks that wait for a disk */ disk_wait: number | null;
    memory_free_bytes: number | null;
    swap_free_bytes: number | null;
    /** this and the next, a second */ pages_in: number | null;
    pages_out: number | null;
    disk_reads: number | null;
    disk_writes: number | null;
    packets: number | null;
  };
  /** [pid, state, rss, peak_rss, cpu_ns, threads] of each process of which something changed */ alive: unknown[][];
} | {
  /** The node's health, and the limits of the job, at intervals. */ type: "health";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  /** since the record before: all shares are of this time */ seconds: number;
  load: {
    /** share of all processors that was busy */ cpu: number | null;
    /** the same at the busiest moment */ cpu_peak: number | null;
    /** share in which a processor waited for a disk */ iowait: number | null;
    /** share that the hypervisor took */ steal: number | null;
    /** average of one minute */ load: number | null;
  };
  /** share of the time in which some tasks, or all (full), waited */ pressure: {
    cpu: number | null;
    memory: number | null;
    memory_full: number | null;
    io: number | null;
    io_full: number | null;
  };
  memory: {
    total_bytes: number | null;
    available_bytes: number | null;
    available_least_bytes: number | null;
    swap_total_bytes: number | null;
    swap_free_bytes: number | null;
  };
  /** a second, of the whole node */ traffic: {
    disk_read_bytes: number | null;
    disk_written_bytes: number | null;
    received_bytes: number | null;
    sent_bytes: number | null;
    network_errors: number | null;
  };
  filesystems?: {
    path: string;
    /** of the job: work, temporary, job directory, home, shared memory */ uses: string;
    total_bytes: number;
    /** for this user */ free_bytes: number;
    inodes: number;
    free_inodes: number;
  }[];
  cgroup?: {
    version: number;
    path: string;
    memory_bytes?: number;
    /** without files, which can be read again; near the limit only */ memory_needed_bytes?: number;
    memory_peak_bytes?: number;
    memory_limit_bytes?: number;
    tasks?: number;
    tasks_limit?: number;
    cpus_limit?: number;
    /** share of the periods in which it was kept from the processors */ throttled?: number;
    oom_kills?: number;
  };
  /** [pid, read_bytes, written_bytes, open_files, open_files_limit] of each of which something changed; bytes are those of its calls to read and write, from its start on; -1: unknown; no limit is null */ processes?: unknown[][];
} | {
  /** Nothing was observed in between. */ type: "gap";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  from: number;
  to: number;
  reason: string;
} | {
  /** What a person should know: a [note](notes.md) with its fields and text. */ type: "warning";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  kind: string;
  note?: string;
  fields?: Record<string, unknown>;
  text: string;
} | {
  /** A process was killed by the signal of a fault. */ type: "crash";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  name: string;
  signal: number;
  core_dumped: boolean;
} | {
  /** A script is at another line. */ type: "script_line";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  language: "bash" | "sh" | "python";
  file: string;
  line: number | null;
  function?: string;
  /** as it is written, not expanded */ command?: string;
  /** what is executed stands between line and this one; null: line is that of the simple command that the shell began last */ last_line: number | null;
  /** it is known */ how: "outside" | "trap" | "builtin" | "inside";
  /** when, where that is known better than by t */ time: number | null;
} | {
  /** A command of a script failed. */ type: "command_failed";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  language: "bash" | "sh" | "python";
  file: string;
  line: number | null;
  function?: string;
  /** as it is written, not expanded */ command?: string;
  /** as $? */ status: number;
  /** that the command took */ seconds: number | null;
  /** the innermost first; of a file that is sourced and of the script itself, `source` and `main` */ stack?: {
    function: string;
    file: string;
    line?: number;
  }[];
  /** when, where that is known better than by t */ time: number | null;
} | {
  /** A script ended. */ type: "script_end";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  file: string;
  status: number | null;
  seconds: number;
  /** the times of lines are known */ how: "outside" | "inside";
  /** of most time first */ lines?: {
    file: string;
    line: number;
    last_line?: number;
    command?: string;
    count?: number;
    failed?: number;
    seconds: number;
  }[];
} | {
  /** Where the threads of a Python program are. */ type: "python_stack";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  version: string;
  threads: {
    tid: number;
    name?: string;
    /** the innermost first */ frames: {
      function: string;
      file: string;
      line?: number;
    }[];
    /** it ran: frames inside these changed while they were read */ moved?: boolean;
    /** there are more frames outside */ cut?: boolean;
  }[];
  /** there may be more threads */ cut?: boolean;
} | {
  /** An exception was raised, of each place the first times. */ type: "python_exception";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  tid: number;
  name: string;
  message: string;
  message_cut?: boolean;
  file: string;
  line: number | null;
  function: string;
  caught: boolean;
  /** where it was raised first */ traceback?: {
    function: string;
    file: string;
    line?: number;
  }[];
  /** when, where that is known better than by t */ time: number | null;
} | {
  /** Calls of functions of a Python program. */ type: "python_calls";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  pid: number;
  /** of all the time of the process, at its end; else since the record before */ whole: boolean;
  calls: number;
  /** of most self time first */ functions: {
    function: string;
    file: string;
    line: number;
    calls: number;
    total_ns: number;
    self_ns: number;
  }[];
} | {
  /** Calls of traced functions, of all processes together; at most once a second, and only if there were some. What a process calls in its last second, or two, is only in its trace. */ type: "functions";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  /** since the record before */ seconds: number;
  calls: number;
  /** of most self time first */ list: {
    name: string;
    calls: number;
    self_ns: number;
  }[];
} | {
  /** A line of a log matched. */ type: "log";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  file: string;
  /** its name, or the regular expression */ pattern: string;
  level: "error" | "warning" | "info" | "debug";
  text: string;
  text_cut?: boolean;
  /** in the file, from 1 */ line: number | null;
  /** lines that matched the same since the last record, and have none */ folded: number;
  /** named groups of the expression */ fields?: Record<string, unknown>;
} | {
  /** Lines that matched, and came too fast to be listed. */ type: "log_folded";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  file: string;
  pattern: string;
  level: "error" | "warning" | "info" | "debug";
  lines: number;
} | {
  /** What became of a log. */ type: "log_file";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  file: string;
  /** skipped: a part was passed over; unwatched: the reason says why */ state: "watched" | "waited_for" | "rotated" | "truncated" | "removed" | "skipped" | "unwatched";
  reason?: string;
  /** that were passed over */ bytes: number | null;
} | {
  /** How far the job is, as a log says. */ type: "progress";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  /** where it was read */ source: string;
  done: number;
  total: number;
  /** until it is done, at the rate until now */ left_seconds: number | null;
} | {
  /** No rank began or ended a call of MPI for so long. */ type: "stall";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  seconds: number;
  ranks: number;
  why: string;
} | {
  /** A rule fired; of each rule the first times. */ type: "rule";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  rule: string;
  fired: number;
  results: {
    action: number;
    service: string;
    objects: string;
    status: number;
    error?: string;
    result: string;
  }[];
} | {
  /** How often each rule fired in all; at the end. */ type: "rules";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  /** how often each fired, and how often an action failed */ list: {
    rule: string;
    fired: number;
    failed: number;
  }[];
} | {
  /** The command ended. */ type: "end";
  job: string;
  node: string;
  stream: string;
  /** the place in the file, counted from 0 */ seq: number;
  /** seconds since the start of the job */ t: number;
  /** the command was executed */ started: boolean;
  exit_code: number;
  /** 0: none */ signal: number;
  /** of the signal, where it is known */ reason: string | null;
  core_dumped: boolean;
  wall_seconds: number;
  cpu_seconds: number;
};
