#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# examples/site/broker.sh DIRECTORY: makes a whole configuration of mosquitto there, with a certificate of its own, and users
# physics, biology and recorder, and starts it on port 28883 (doc/howto/site.md). Each user may read and write only below
# scry/v1/NAME/; the recorder reads all jobs, asks for what it lacks, and says what it has.
set -eu
site=$(realpath -m "${1:?name a directory}")
umask 077
mkdir -p "$site"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
  -keyout "$site"/host.key -out "$site"/host.pem 2>/dev/null
mosquitto_passwd -b -c "$site"/passwords physics secret-of-physics
mosquitto_passwd -b "$site"/passwords biology secret-of-biology
mosquitto_passwd -b "$site"/passwords recorder secret-of-recorder

cat >"$site"/acl <<'END'
pattern readwrite scry/v1/%u/#

user recorder
topic read scry/v1/#
topic write scry/v1/+/+/ask
topic write scry/v1/+/+/stored/+
END

cat >"$site"/mosquitto.conf <<END
user $(id -un)
pid_file $site/pid
persistence true
persistence_location $site
max_queued_messages 1000000
max_queued_bytes 268435456
max_inflight_messages 100
max_packet_size 1048576

listener 28883
certfile $site/host.pem
keyfile $site/host.key
password_file $site/passwords
acl_file $site/acl
allow_anonymous false
END
mosquitto -d -c "$site"/mosquitto.conf
