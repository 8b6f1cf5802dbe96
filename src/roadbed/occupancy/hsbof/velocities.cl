// SPDX-License-Identifier: Apache-2.0
// Each cell's velocity from its particles, and which cells move. The CPU's: velocities_cpu.py.

// The particles of a cell, and those of all cells of its work-group.
typedef struct {
    GLOBAL const Particle *particles;
    GLOBAL const MovingRule *rule;
    int2 run, whole;
    LOCAL real *terms;
} CellVelocities;

// Mass, and weight with its first and second moments, of a particle. Those whose motion was tested lately count most: inside
// a large object any velocity survives for a while.
#define MOMENTS 7
FUNCTION void moments_of(const CellVelocities *group, int i, real *terms) {
    GLOBAL const MovingRule *rule = group->rule;
    Particle p = group->particles[i];
    real w = (real)p.mass * (rule->untested + ((real)1 - rule->untested) * fmin((real)2 * (real)p.tested, (real)1));
    terms[0] = (real)p.mass;
    terms[1] = w;
    terms[2] = w * (real)p.vx;
    terms[3] = w * (real)p.vy;
    terms[4] = w * (real)p.vx * (real)p.vx;
    terms[5] = w * (real)p.vx * (real)p.vy;
    terms[6] = w * (real)p.vy * (real)p.vy;
}

// Mean and covariance (xx, xy, yy). Cells of a registered component take its velocity, which is less late, if it is large or
// their particles agree.
KERNEL estimate_velocities(GLOBAL const Step *step, GLOBAL const int2 *runs, GLOBAL const Particle *particles,
                           GLOBAL const float *layers, GLOBAL const int *label, GLOBAL const float2 *registered,
                           GLOBAL const int *component_cells, GLOBAL float *mass, GLOBAL float2 *mean,
                           GLOBAL float *covariance, GLOBAL uchar *moving) {
    LOCAL_ARRAY real terms[MOMENTS * CHUNK];
    LOCAL_ARRAY int bounds[2];
    GLOBAL const MovingRule *rule = &step->moving;
    real one = (real)1, two = (real)2;
    FOR_EACH_TOGETHER(cell, step->size) {
        int2 run = cell < step->size ? runs[cell] : INT2(0, 0);
        CellVelocities group = {particles, rule, run, run_of_group(run, bounds), terms};
        real sums[MOMENTS] = {0, 0, 0, 0, 0, 0, 0};
        SEGMENTED_SUM(moments_of, MOMENTS, &group, sums)
        if (cell >= step->size) continue;
        real total = sums[0], m = sums[1], mx = sums[2], my = sums[3], mxx = sums[4], mxy = sums[5], myy = sums[6];
        mass[cell] = (float)total;
        int moves = 0, component = label[cell], trusted = 0;
        float vx = NOT_A_NUMBER, vy = NOT_A_NUMBER, xx = NOT_A_NUMBER, xy = NOT_A_NUMBER, yy = NOT_A_NUMBER;
        real rx = (real)NOT_A_NUMBER, ry = rx;
        if (component >= 0) {
            rx = (real)registered[component].x;
            ry = (real)registered[component].y;
            trusted = is_finite(registered[component].x) && component_cells[component] >= rule->trusted_cells;
        }
        if (total > (real)LEAST_MASS || trusted) {
            real cxx = (real)REGISTERED_VARIANCE, cyy = cxx, cxy = (real)0, doubt = one, few = (real)0;
            if (total > (real)LEAST_MASS) {
                mx /= m;
                my /= m;
                cxx = fmax(mxx / m - mx * mx, (real)LEAST_VARIANCE);
                cyy = fmax(myy / m - my * my, (real)LEAST_VARIANCE);
                cxy = mxy / m - mx * my;
                doubt = total / m;
                few = rule->one_particle / (real)(run.y - run.x);
            }
            real apart = (mx - rx) * (mx - rx) + (my - ry) * (my - ry);  // not a number where nothing is registered
            int follows = trusted || apart <= rule->agreement * (rx * rx + ry * ry);
            if (follows) {
                mx = rx;
                my = ry;
            }
            vx = (float)mx;
            vy = (float)my;
            xx = (float)((cxx + few) * doubt);
            xy = (float)(cxy * doubt);
            yy = (float)((cyy + few) * doubt);
            float s = layers[STATIC * step->size + cell], d = layers[DYNAMIC * step->size + cell];
            real occupancy = (real)0.5 * (one + (real)s + (real)d - (real)layers[FREE * step->size + cell]);
            real a = cxx + (real)STANDSTILL_VARIANCE, c = cyy + (real)STANDSTILL_VARIANCE;
            real distance = (c * mx * mx - two * cxy * mx * my + a * my * my) / (a * c - cxy * cxy);
            moves = occupancy > rule->occupancy && mx * mx + my * my > rule->speed * rule->speed &&
                    (follows || ((real)d > rule->dynamic_share * (real)(s + d) && distance > rule->mahalanobis));
        }
        GLOBAL float *velocity = (GLOBAL float *)&mean[cell];
        velocity[0] = vx;
        velocity[1] = vy;
        covariance[3 * cell] = xx;
        covariance[3 * cell + 1] = xy;
        covariance[3 * cell + 2] = yy;
        moving[cell] = (uchar)moves;
    }
}

// A cell moves only if enough of the hit cells around it move alike, or one other as their component does.
KERNEL drop_lone_cells(GLOBAL const Step *step, GLOBAL const uchar *moving, GLOBAL const float2 *mean,
                       GLOBAL const float *probability, GLOBAL const int *label, GLOBAL const float2 *registered,
                       GLOBAL uchar *together) {
    FOR_EACH(cell, step->size) {
        int alike = -1, hits = 0, component = label[cell];  // the cell itself will be counted as alike
        int known = component >= 0 && mean[cell].x == registered[component].x && mean[cell].y == registered[component].y;
        if (moving[cell]) {
            int row = cell / step->columns, column = cell % step->columns;
            float2 own = mean[cell];
            real limit = (real)ALIKE * (real)(own.x * own.x + own.y * own.y);
            int last_row = min(row + ALIKE_REACH, step->rows - 1), last = min(column + ALIKE_REACH, step->columns - 1);
            for (int r = max(row - ALIKE_REACH, 0); r <= last_row; ++r)
                for (int c = max(column - ALIKE_REACH, 0); c <= last; ++c) {
                    int other = r * step->columns + c;
                    hits += (real)probability[other] > (real)HIT && other != cell;
                    if (!moving[other]) continue;
                    float2 there = mean[other];
                    float dx = there.x - own.x, dy = there.y - own.y;
                    alike += (real)(dx * dx + dy * dy) <= limit;
                }
        }
        together[cell] = moving[cell] && (real)alike >= (known ? (real)1 : step->moving.alike * (real)hits);
    }
}
