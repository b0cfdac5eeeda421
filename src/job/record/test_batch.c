/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/record/batch.h"

/* NAME=VALUE; the last one is NULL. */
static const char *get(void *ctx, const char *name)
{
    size_t len = strlen(name);
    for (const char *const *at = ctx; *at; at++)
        if (strncmp(*at, name, len) == 0 && (*at)[len] == '=')
            return *at + len + 1;
    return NULL;
}

/* The values of all members with blanks between them; null is -. */
static void check(const char **environment, const char *want, const char *want_name)
{
    char got[1024] = "", name[256];
    json_t *json = batch_json(get, (void *)environment, name, sizeof name);
    const char *key;
    json_t *value;
    json_object_foreach(json, key, value)
    {
        size_t used = strlen(got);
        if (json_is_integer(value))
            snprintf(got + used, sizeof got - used, "%lld ", (long long)json_integer_value(value));
        else
            snprintf(got + used, sizeof got - used, "%s ", json_is_null(value) ? "-" : json_string_value(value));
    }
    assert_string_equal(got, want);
    assert_string_equal(name, want_name);
    json_decref(json);
}

#define CHECK(want, name, ...) check((const char *[]){__VA_ARGS__, NULL}, want, name)

/* system id array step partition nodes cpus memory limit */
static void test_environments(void **state)
{
    CHECK("", "", "SLURM_JOB_ID=");
    CHECK("slurm 7 - - - - - - - ", "", "SLURM_JOB_ID=7");
    CHECK("slurm 14 12_3 0 main 2 4 209715200 300 ", "deep water", "SLURM_JOB_ID=14", "SLURM_ARRAY_JOB_ID=12",
          "SLURM_ARRAY_TASK_ID=3", "SLURM_STEP_ID=0", "SLURM_JOB_PARTITION=main", "SLURM_JOB_NUM_NODES=2",
          "SLURM_CPUS_ON_NODE=4", "SLURM_MEM_PER_NODE=200", "SLURM_JOB_NAME=deep water",
          "SLURM_JOB_START_TIME=1000000000", "SLURM_JOB_END_TIME=1000000300");
    CHECK("slurm 14 - - - - 4 419430400 - ", "", "SLURM_JOB_ID=14", "SLURM_CPUS_ON_NODE=4", "SLURM_MEM_PER_CPU=100");
    CHECK("slurm 14 - - - - - - - ", "", "SLURM_JOB_ID=14", "SLURM_CPUS_ON_NODE=-4", "SLURM_MEM_PER_CPU=100",
          "SLURM_MEM_PER_NODE=99999999999999999999", "SLURM_JOB_NUM_NODES=2x", "SLURM_JOB_START_TIME=9",
          "SLURM_JOB_END_TIME=8");
    CHECK("slurm 14 - - - - - - - ", "", "SLURM_JOB_ID=14", "SLURM_MEM_PER_NODE=18446744073709551615");
    CHECK("pbs 12.server - - work - 4 - - ", "x", "PBS_JOBID=12.server", "PBS_QUEUE=work", "NCPUS=4", "PBS_JOBNAME=x");
    CHECK("pbs 12[3].server 12_3 - - 2 8 - 3600 ", "", "PBS_JOBID=12[3].server", "PBS_ARRAYID=3", "PBS_NUM_NODES=2",
          "PBS_NUM_PPN=8", "PBS_WALLTIME=3600");
    CHECK("lsf 5 - - normal 2 4 - - ", "", "LSB_JOBID=5", "LSB_JOBINDEX=0", "LSB_QUEUE=normal",
          "LSB_MCPU_HOSTS=a 4 b 8");
    CHECK("lsf 5 5_2 - - - - - - ", "", "LSB_JOBID=5", "LSB_JOBINDEX=2", "LSB_MCPU_HOSTS=a 4 b");
    CHECK("sge 9 - - all.q 1 6 - - ", "n", "SGE_TASK_ID=undefined", "JOB_ID=9", "QUEUE=all.q", "NHOSTS=1", "NSLOTS=6",
          "JOB_NAME=n");
    CHECK("sge 9 9_4 - - 2 - - - ", "", "SGE_TASK_ID=4", "JOB_ID=9", "NHOSTS=2", "NSLOTS=6");
}

static void test_htcondor(void **state)
{
    static const char ad[] = "MyType = \"Job\"\nClusterId = 33\r\nProcId = 2\nrequestmemory = 512\nRequestCpus = 2\n"
                             "RequestMemoryOther = 9\nAllowedJobDuration=7200\nJobBatchName = \"a \\\"b\"\n";
    char path[] = "/tmp/scry-ad-XXXXXX", variable[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, ad, sizeof ad - 1) == sizeof ad - 1);
    close(fd);
    snprintf(variable, sizeof variable, "_CONDOR_JOB_AD=%s", path);
    CHECK("htcondor 33.2 - - - - 2 536870912 7200 ", "a \\\"b", variable);
    unlink(path);
    CHECK("", "", variable); /* of an outer job that is over */
    CHECK("pbs 1 - - - - - - - ", "", variable, "PBS_JOBID=1");
}

static void test_ad(void **state)
{
    char value[8];
    assert_false(batch_ad_value("", "A", value, sizeof value));
    assert_false(batch_ad_value("A\nA =\nB = 2", "A", value, sizeof value));
    assert_true(batch_ad_value("AB = 1\nA=2", "a", value, sizeof value));
    assert_string_equal(value, "2");
    assert_true(batch_ad_value("A = \"\\n\" ", "A", value, sizeof value));
    assert_false(batch_ad_value("A = 12345678", "A", value, sizeof value));
    assert_false(batch_ad_value("A = \"\"", "A", value, sizeof value));
    assert_true(batch_ad_value("A = \"", "A", value, sizeof value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_environments), cmocka_unit_test(test_htcondor),
                                       cmocka_unit_test(test_ad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
