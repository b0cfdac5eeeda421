/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/system/loop.h"
#include "monitor/engine/monitor.h"
#include "monitor/parts/parts.h"
#include "monitor/tree/tree.h"
#include "service/omis/service.h"
#include "wire/stream.h"

struct here here;
static char dir[64], path[96];
static struct loop *loop;
static struct monitor *monitor;

static void idle(void *ctx, bool stop)
{
    here.stop_asked |= stop;
}

int here_setup(void **state)
{
    struct err err = {0};
    snprintf(dir, sizeof dir, "/tmp/scry-test-daemon-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/socket", dir);
    int fd = local_listen(path, &err);
    if (fd < 0 || loop_new(&loop) < 0 || monitor_new(&monitor, loop, service_register_all, &err) < 0 ||
        lock_start(monitor) < 0 || server_new(&here.server, loop, monitor, fd, idle, NULL) < 0)
        return -1;
    conditional_start(monitor->tree);
    return 0;
}

int here_teardown(void **state)
{
    server_free(here.server);
    lock_done(monitor);
    monitor_free(monitor);
    loop_free(loop);
    unlink(path);
    return rmdir(dir);
}

int here_connect(void)
{
    struct err err = {0};
    return local_connect(path, &err);
}

void here_step(void)
{
    assert_int_equal(loop_step(loop, 0), 0);
}
