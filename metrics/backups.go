package metrics

import "github.com/prometheus/client_golang/prometheus"

// Backups are the collectors of backups on a schedule. How many were made and how many
// failed, parley_store_backups_total counts, with those that somebody has asked for.
type Backups struct {
	Every    prometheus.Gauge     // seconds; 0 = there is no schedule
	LastGood prometheus.Gauge     // of what lies in the directory, and is not of a time to come; 0 = none
	Kept     prometheus.Gauge     // backups of this log in the directory
	Seconds  prometheus.Histogram // of those that were made by the schedule
}

// NewBackups makes and registers them.
func NewBackups(r prometheus.Registerer) *Backups {
	f := newFactory(r, "parley_backup")
	return &Backups{
		Every:    f.gauge("_every_seconds", "How often a backup is made (backup.every); 0 = there is no schedule."),
		LastGood: f.gauge("_last_good_timestamp_seconds", "When the newest whole backup in backup.dir that is not of a time to come was made, also before this start; 0 = there is none."),
		Kept:     f.gauge("s_kept", "Whole backups of this store in backup.dir."),
		Seconds: f.histogram("_duration_seconds", "How long backups of the schedule took, reading them back included.",
			[]float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}),
	}
}
