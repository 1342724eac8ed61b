"""RocketMQ 5's gRPC protocol on the engine: `apache.rocketmq.v2.MessagingService`."""
