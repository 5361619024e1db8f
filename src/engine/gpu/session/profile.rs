//! The time of each stage by the device's own clock.

use super::Session;
use crate::engine::StageTime;
use crate::{Error, Result};
use wgpu::BufferUsages;

impl Session {
    /// Runs everything once with a timestamp around every dispatch.
    pub(crate) fn profile(&self) -> Result<Vec<StageTime>> {
        let device = &self.context.device;
        if !device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err(Error::invalid(format!(
                "{} has no timestamps, expected a device that can time the stages of its work",
                self.context.name()
            )));
        }
        let mut times: Vec<StageTime> = Vec::new();
        let storage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC;
        let resolved = self.context.buffer("timestamps", 16, storage)?;
        let staging =
            self.context.buffer("timestamps", 16, BufferUsages::COPY_DST | BufferUsages::MAP_READ)?;
        let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        for bound in &self.gradient {
            let commands = self.context.record(|encoder| {
                let writes = wgpu::ComputePassTimestampWrites {
                    query_set: &queries,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                };
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: None,
                    timestamp_writes: Some(writes),
                });
                bound.record(&mut pass);
                drop(pass);
                encoder.resolve_query_set(&queries, 0..2, &resolved, 0);
                encoder.copy_buffer_to_buffer(&resolved, 0, &staging, 0, 16);
                1
            })?;
            self.context.submit(commands)?;
            let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&self.context.read(&staging, 16)?);
            let period = f64::from(self.context.queue.get_timestamp_period()) * 1e-9;
            let seconds = ticks[1].saturating_sub(ticks[0]) as f64 * period;
            match times.iter_mut().find(|time| time.stage == bound.stage) {
                Some(time) => {
                    time.dispatches += 1;
                    time.seconds += seconds;
                    time.flops += bound.flops;
                }
                None => {
                    times.push(StageTime { stage: bound.stage, dispatches: 1, seconds, flops: bound.flops })
                }
            }
        }
        Ok(times)
    }
}
