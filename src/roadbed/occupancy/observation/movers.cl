// SPDX-License-Identifier: Apache-2.0
// Moves the points of tracked objects to where these are at the frame's time. Twin: movers_cpu.py.

KERNEL move_points(GLOBAL const MoverStep *step, GLOBAL const Mover *movers, GLOBAL const float *points_in,
                   GLOBAL const float *times_in, GLOBAL float *moved) {
    GLOBAL const float *points = AT(const float, step->points, points_in);
    GLOBAL const float *times = AT(const float, step->times, times_in);
    FOR_EACH(i, step->count) {
        float px = points[3 * i], py = points[3 * i + 1], pz = points[3 * i + 2];
        real x = px, y = py, z = pz, lag = times[i];
        for (int k = 0; k < step->movers; ++k) {
            GLOBAL const Mover *m = &movers[k];
            real ahead = m->ahead[0] * x + m->ahead[1] * y + m->ahead[2] * z + m->ahead[3] - lag * m->speed[0];
            real aside = m->aside[0] * x + m->aside[1] * y + m->aside[2] * z + m->aside[3] - lag * m->speed[1];
            if (!(fabs(ahead) <= m->reach[0] && fabs(aside) <= m->reach[1])) continue;
            px = (float)(x - lag * m->velocity[0]);
            py = (float)(y - lag * m->velocity[1]);
            pz = (float)(z - lag * m->velocity[2]);
            break;
        }
        moved[3 * i] = px, moved[3 * i + 1] = py, moved[3 * i + 2] = pz;
    }
}
