// Stage `all_pairs`: for 16 or 32 rows i, tiles of 16 columns j stream by, in the shape of flash attention. A tile's inner
// products become coefficients in shared memory and those, times b̃_j and x_i − x_j, add up to S_b and the R_q of
// src/engine/cpu/all_pairs/mod.rs in registers; nothing of size n × n exists. A workgroup keeps 64 coordinates of the
// sums (a slice); differences are taken before they are squared or summed, so that nothing cancels far from 0.
#bind x, work, x_other, work_other, diffusion, sums
#use grid
#use rows
#use pair
#use kernel
#use objective

var<workgroup> x_rows: array<array<vec4<f32>, PAIR_ROWS>, CHUNK>;
var<workgroup> x_columns: array<array<vec4<f32>, 16>, CHUNK>;
var<workgroup> b_rows: array<array<vec4<f32>, PAIR_ROWS>, B_CHUNK>;       // KDS
var<workgroup> b_columns: array<array<vec4<f32>, 16>, B_CHUNK>;
var<workgroup> a_rows: array<array<vec4<f32>, PAIR_ROWS>, A_CHUNK>;       // a x: KDS, full diffusion
var<workgroup> a_columns: array<array<vec4<f32>, 16>, A_CHUNK>;
var<workgroup> c_b: array<array<f32, 16>, PAIR_ROWS>;
var<workgroup> c_r: array<array<f32, 16>, RW_ROWS>;
var<workgroup> c_w: array<array<f32, 16>, RW_ROWS>;
var<workgroup> c_z: array<array<f32, 16>, ZM_ROWS>;
var<workgroup> c_m: array<array<f32, 16>, ZM_ROWS>;
var<workgroup> reach: array<f32, 16>; // ω_j ζ_j

// Inner products of one pair: |r|², π, π', w and ⟨x, y⟩, ⟨b', x⟩.
struct Gram { radial: vec4<f32>, linear: vec2<f32> }

// Sums of the thread's two rows at its four coordinates. With many sums a thread keeps one row only (TWO is false):
// more registers would leave the device fewer threads to hide its memory's latency with.
struct Rows {
    b0: vec4<f32>, b1: vec4<f32>,
    x0: vec4<f32>, x1: vec4<f32>,
    r0: vec4<f32>, w0: vec4<f32>, z0: vec4<f32>, m0: vec4<f32>, y: vec4<f32>,
}

// sum + ⟨a, b⟩ in four multiply-adds: `dot` would take one instruction more.
fn chain(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

fn gram(sum: ptr<function, Gram>, at: u32, i: u32, j: u32, alpha: vec4<f32>) {
    let px = x_rows[at][i];
    let py = x_columns[at][j];
    let r = px - py;
    (*sum).radial.x = chain(r, r, (*sum).radial.x);
    if (LINEAR) { (*sum).linear.x = chain(px, py, (*sum).linear.x); }
    if (QUADRATIC) {
        var z = alpha * r;
        if (FULL) { z = a_rows[at][i] - a_columns[at][j]; }
        (*sum).radial.y = chain(b_rows[at][i], r, (*sum).radial.y);
        (*sum).radial.z = chain(b_columns[at][j], r, (*sum).radial.z);
        (*sum).radial.w = chain(r, z, (*sum).radial.w);
        if (LINEAR) { (*sum).linear.y = chain(b_columns[at][j], px, (*sum).linear.y); }
    }
}

// Weighs one pair: leaves its coefficients in row i, column j and returns c_rest, c_r, c_z.
fn weigh(sum: Gram, i: u32, j: u32, omega: f32, rest: f32, rest_other: f32, traces: vec4<f32>) -> vec4<f32> {
    var dots = Dots();
    dots.pi = sum.radial.y;
    dots.pi_other = sum.radial.z;
    dots.w = sum.radial.w;
    dots.inner = 1.0 + sum.linear.x;
    dots.b_x = sum.linear.y;
    dots.rest = rest;
    dots.rest_other = rest_other;
    dots.trace = traces.x;
    dots.trace2 = traces.y;
    let c = coefficients(profile(0.5 * sum.radial.x), dots);
    // Padding and, for `u`, the diagonal weigh 0 whatever their coefficients are.
    let keep = omega != 0.0;
    var b = c.b;
    if (!GAUSSIAN) {
        // For sums that a loss does not need: see src/engine/gpu/statistics.rs.
        if (job.weigh == 1u) { b = c.z; }
        if (job.weigh == 2u) { b = c.m; }
    }
    c_b[i][j] = select(0.0, omega * b, keep);
    if (QUADRATIC) {
        c_r[i][j] = select(0.0, omega * c.r, keep);
        c_w[i][j] = select(0.0, omega * c.w, keep);
    }
    if (!GAUSSIAN) {
        c_z[i][j] = select(0.0, omega * c.z, keep);
        c_m[i][j] = select(0.0, omega * c.m, keep);
    }
    return select(vec4<f32>(0.0), omega * vec4<f32>(c.rest, c.r, c.z, 0.0), keep);
}

// Adds column j of the tile to the sums of rows i and i + 16.
fn absorb(sum: ptr<function, Rows>, i: u32, j: u32, x0: vec4<f32>, x1: vec4<f32>, py: vec4<f32>, b: vec4<f32>) {
    let r0 = x0 - py;
    let b0 = c_b[i][j];
    (*sum).b0 = fma(vec4<f32>(b0), b, (*sum).b0);
    if (GAUSSIAN) {
        (*sum).x0 = fma(vec4<f32>(b0), r0, (*sum).x0);
    } else {
        (*sum).z0 = fma(vec4<f32>(c_z[i][j]), r0, (*sum).z0);
        (*sum).m0 = fma(vec4<f32>(c_m[i][j]), r0, (*sum).m0);
    }
    if (QUADRATIC) {
        (*sum).r0 = fma(vec4<f32>(c_r[i][j]), r0, (*sum).r0);
        (*sum).w0 = fma(vec4<f32>(c_w[i][j]), r0, (*sum).w0);
        if (LINEAR) { (*sum).y = fma(vec4<f32>(reach[j]), py, (*sum).y); }
    }
    if (TWO) {
        let r1 = x1 - py;
        let b1 = c_b[i + 16u][j];
        (*sum).b1 = fma(vec4<f32>(b1), b, (*sum).b1);
        (*sum).x1 = fma(vec4<f32>(b1), r1, (*sum).x1);
    }
}

fn put(at: u32, value: vec4<f32>, more: bool) {
    if (more) { sums[at] += value; } else { sums[at] = value; }
}

// Of a number per pair (16 threads per row): thread t < PAIR_ROWS gets the sum of row t. Goes through the
// memory of the coefficients; must be called in uniform control.
fn row_sum(value0: f32, value1: f32, thread: u32) -> f32 {
    workgroupBarrier();
    c_b[thread / 16u][thread % 16u] = value0;
    if (TWO) { c_b[thread / 16u + 16u][thread % 16u] = value1; }
    workgroupBarrier();
    var total = 0.0;
    if (thread < PAIR_ROWS) {
        for (var at = 0u; at < 16u; at++) { total += c_b[thread][at]; }
    }
    return total;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let split = group % job.splits;
    let slice = group / job.splits % job.column_tiles;
    let first_row = job.first_row + group / job.splits / job.column_tiles * PAIR_ROWS;
    let block = block_of(first_row);
    if (!is_sample(first_row, block)) { return; }
    let e = block.environment;

    // The columns of this environment that lie in the other span, and this split's share of their tiles.
    let begin = max(block.first_block, job.other_block) * ROW_BLOCK;
    let end = min(block.first_block * ROW_BLOCK + block.rows, job.other_block * ROW_BLOCK + job.other_rows);
    let tiles = (max(begin, end) - begin + 15u) / 16u;
    let last_tile = tiles * (split + 1u) / job.splits;

    let j = thread % 16u;
    let i = thread / 16u;
    let row0 = first_row + i;
    let row1 = row0 + select(0u, 16u, TWO);
    let offset = job.first_block * ROW_BLOCK; // of this span's rows, to compare with columns
    var omega = vec2<f32>(1.0);
    var rest = vec2<f32>(0.0);
    if (TILTED) {
        let record0 = work[row0 * job.work_stride];
        let record1 = work[row1 * job.work_stride];
        omega = vec2<f32>(record0.x, record1.x);
        rest = vec2<f32>(record0.z, record1.z);
    }
    omega = select(vec2<f32>(0.0), omega, vec2<bool>(is_sample(row0, block), is_sample(row1, block)));
    let traces = diffusion[e * job.diffusion_stride + job.at_traces];
    let k = min(slice * 16u + j, job.stride - 1u);
    let x0 = x[row0 * job.stride + k];
    let x1 = x[row1 * job.stride + k];

    // Sums go to memory after every RUN of tiles: two short sums lose far less to rounding than one over all columns.
    var tile = tiles * split / job.splits;
    var more = job.accumulate != 0u;
    loop {
        let end_of_run = min(tile + RUN, last_tile);
        var sum = Rows();
        var numbers0 = vec4<f32>(0.0);
        var numbers1 = vec4<f32>(0.0);
        for (; tile < end_of_run; tile++) {
            let column = begin - job.other_block * ROW_BLOCK + tile * 16u; // a row of the other span
            var gram0 = Gram();
            var gram1 = Gram();
            for (var chunk = 0u; chunk < job.stride; chunk += CHUNK) {
                workgroupBarrier();
                for (var at = thread; at < ROWS_QUADS; at += 256u) {
                    let row = first_row + at % PAIR_ROWS;
                    let quad = chunk + at / PAIR_ROWS;
                    let inside = quad < job.stride;
                    let safe = min(quad, job.stride - 1u);
                    let at_row = at % PAIR_ROWS;
                    let at_quad = at / PAIR_ROWS;
                    x_rows[at_quad][at_row] = select(vec4<f32>(0.0), x[row * job.stride + safe], inside);
                    if (QUADRATIC) {
                        b_rows[at_quad][at_row] = select(vec4<f32>(0.0), work[row * job.work_stride + job.at_b + safe], inside);
                        if (FULL) {
                            a_rows[at_quad][at_row] = select(vec4<f32>(0.0), work[row * job.work_stride + job.at_spread + safe], inside);
                        }
                    }
                }
                if (thread < COLUMNS_QUADS) {
                    let row = column + thread % 16u;
                    let quad = chunk + thread / 16u;
                    let inside = quad < job.stride;
                    let safe = min(quad, job.stride - 1u);
                    x_columns[thread / 16u][thread % 16u] = select(vec4<f32>(0.0), x_other[row * job.stride + safe], inside);
                    if (QUADRATIC) {
                        b_columns[thread / 16u][thread % 16u] = select(vec4<f32>(0.0), work_other[row * job.work_stride + job.at_b + safe], inside);
                        if (FULL) {
                            a_columns[thread / 16u][thread % 16u] =
                                select(vec4<f32>(0.0), work_other[row * job.work_stride + job.at_spread + safe], inside);
                        }
                    }
                }
                workgroupBarrier();
                for (var at = 0u; at < CHUNK; at++) {
                    var alpha = vec4<f32>(0.0);
                    if (QUADRATIC && !FULL) {
                        alpha = diffusion[e * job.diffusion_stride + min(chunk + at, job.stride - 1u)];
                    }
                    gram(&gram0, at, i, j, alpha);
                    if (TWO) { gram(&gram1, at, i + 16u, j, alpha); }
                }
            }
            // Weights of the thread's two pairs.
            var omega_other = 1.0;
            var rest_other = 0.0;
            if (TILTED) {
                let record = work_other[(column + j) * job.work_stride];
                omega_other = record.x;
                rest_other = record.z;
            }
            let other = job.other_block * ROW_BLOCK + column + j;
            if (other >= end) { omega_other = 0.0; }
            var weight = omega * omega_other;
            if (DISTINCT) { weight = select(weight, vec2<f32>(0.0), vec2<u32>(row0, row1) + offset == vec2<u32>(other)); }
            numbers0 += weigh(gram0, i, j, weight.x, rest.x, rest_other, traces);
            if (TWO) { numbers1 += weigh(gram1, i + 16u, j, weight.y, rest.y, rest_other, traces); }
            if (QUADRATIC && LINEAR && thread < 16u) { reach[thread] = select(0.0, omega_other * rest_other, other < end); }
            workgroupBarrier();
            for (var at = 0u; at < 16u; at++) {
                let py = x_other[(column + at) * job.stride + k];
                let b = work_other[(column + at) * job.work_stride + job.at_b + k];
                absorb(&sum, i, at, x0, x1, py, b);
            }
        }

        let record = (split * job.rows + first_row + thread) * job.sums_stride + SUMS * job.stride;
        let writes = slice == 0u && thread < PAIR_ROWS;
        let rest_sum = row_sum(numbers0.x, numbers1.x, thread);
        let r_sum = row_sum(numbers0.y, numbers1.y, thread);
        let z_sum = row_sum(numbers0.z, numbers1.z, thread);
        if (writes) { put(record, vec4<f32>(rest_sum, r_sum, z_sum, 0.0), more); }
        if (slice * 16u + j < job.stride) {
            let at = (split * job.rows + row0) * job.sums_stride + k;
            put(at, sum.b0 + omega.x * sum.y, more);
            if (GAUSSIAN) {
                put(at + job.stride, sum.x0, more);
            } else {
                put(at + SUM_Z * job.stride, sum.z0, more);
                put(at + SUM_M * job.stride, sum.m0, more);
            }
            if (QUADRATIC) {
                put(at + SUM_R * job.stride, sum.r0, more);
                put(at + SUM_W * job.stride, sum.w0, more);
            }
            if (TWO) {
                let next = at + 16u * job.sums_stride;
                put(next, sum.b1, more);
                put(next + job.stride, sum.x1, more);
            }
        }
        more = true;
        if (tile >= last_tile) { break; }
    }
}
